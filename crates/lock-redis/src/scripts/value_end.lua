
end)

if ok and type(result) == 'string' then
  if string.sub(result, 1, 2) ~= 'q ' then
    local cell = redis.pcall('GET', value_key)
    -- If the key holds something else, the client finds out when it loads the value.
    if type(cell) ~= 'table' then
      return { number, { result, cell } }
    end
  end
  return number .. ' ' .. result
elseif type(result) == 'number' then
  return string.format('%s:%.0f', number, result)
elseif type(result) == 'string' then
  -- An error names the request, too. Before version 7 of the server it is a text.
  result = { err = result }
end
return { number, result }
