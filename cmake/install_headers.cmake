# install_headers.cmake -- installs the public headers (run by `cmake --install`; `binary`, `include` come from there)
#
# In the tree they include each other from its root: "engine/core/tensor.h". Installed, it is "mtorch/engine/tensor.h", so
# that a program with an engine/core/tensor.h or a lua.h of its own never gets the wrong one.
get_filename_component(source ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
set(staged ${binary}/include/mtorch)
file(REMOVE_RECURSE ${staged})

function(stage from to)
  file(READ ${source}/${from} text)
  string(REGEX REPLACE "#include \"(engine|kernels)/" "#include \"mtorch/\\1/" text "${text}")
  file(WRITE ${staged}/${to} "${text}")
endfunction()

file(GLOB_RECURSE headers RELATIVE ${source} ${source}/engine/*.h ${source}/kernels/math/*.h)
file(GLOB contract RELATIVE ${source} ${source}/kernels/*.h)
list(APPEND headers ${contract})
# Without those that include the CPU kernels' own headers.
list(REMOVE_ITEM headers engine/mtorch.h engine/linalg/common.h engine/profile/verb_log.h)
foreach(header ${headers})
  stage(${header} ${header})
endforeach()
stage(engine/mtorch.h mtorch.h)
stage(bindings/open.h lua.h)
file(INSTALL ${staged} DESTINATION ${CMAKE_INSTALL_PREFIX}/${include})
