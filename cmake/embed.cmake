# embed.cmake -- writes Lua sources into a C++ file
#
#   cmake -DOUT=file -DROOT=folder -DSOURCES="a.lua;b.lua" -P embed.cmake
set(text "// Made from bindings/lua/ by cmake/embed.cmake.\n#include \"bindings/core/module.h\"\n")
string(APPEND text "namespace mt::lua {\nnamespace {\n")
set(rows "")
set(count 0)
foreach(source ${SOURCES})
  file(RELATIVE_PATH path ${ROOT} ${source})
  string(REGEX REPLACE "(/init)?\\.lua$" "" name ${path})  # nn/init.lua is mtorch.nn
  string(REPLACE "/" "." name ${name})
  file(READ ${source} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND text "const unsigned char text${count}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"mtorch.${name}\", \"@mtorch/${path}\", text${count}, sizeof text${count} - 1},\n")
  math(EXPR count "${count} + 1")
endforeach()
string(APPEND text "}  // namespace\nconst Embedded embedded[] = {\n${rows}};\n")
string(APPEND text "const size_t embedded_count = ${count};\n}  // namespace mt::lua\n")
file(WRITE ${OUT} "${text}")
