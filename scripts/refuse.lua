-- refuse.lua -- how scripts that cannot go on end: refuse(format, ..) prints a sentence to stderr; exit status 1
return function(...)
  io.stderr:write(arg[0]:match '([^/]*)%.lua$' or arg[0], ': ', string.format(...), '\n')
  os.exit(1)
end
