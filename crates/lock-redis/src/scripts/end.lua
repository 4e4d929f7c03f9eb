end)

if ok and type(result) == 'string' then
  return number .. ' ' .. result
elseif type(result) == 'number' then
  return string.format('%s:%.0f', number, result)
elseif type(result) == 'string' then
  -- An error names the request, too. Before version 7 of the server it is a text.
  result = { err = result }
end
return { number, result }
