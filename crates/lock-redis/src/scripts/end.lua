end)

-- What goes wrong names the request, too. Before version 7 of the server it is a text.
if not ok and type(result) == 'string' then
  result = { err = result }
end
return { number, result }
