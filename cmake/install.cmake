# install.cmake -- the Lua module for a stock luajit, and what `cmake --install` puts where
#
# The component `program` is what people run and read, `cuda` the plug-in, `dev` what other programs are built with.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# ---- mtorch.so: `require 'mtorch'` in any LuaJIT, whose symbols come from the host -----------------------------------
add_library(lua_module MODULE bindings/module_so.cpp)
target_link_libraries(lua_module PRIVATE bindings)
# LuaJIT unloads a C module by a finalizer when the state closes. Older finalizers, OpenMP's threads and the ends of
# threads still need the code then: it stays in the process (g++'s unique symbols mostly see to that, by chance).
target_link_options(lua_module PRIVATE -Wl,-z,nodelete)
set_target_properties(lua_module PROPERTIES OUTPUT_NAME mtorch PREFIX "" SUFFIX .so
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lua)

# ---- programs and libraries -----------------------------------------------------------------------------------------
# Libraries that were found outside the system's folders stay found.
set_target_properties(mtorch lua_module PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
set_target_properties(kernels PROPERTIES OUTPUT_NAME mtorch_kernels)
set_target_properties(engine PROPERTIES OUTPUT_NAME mtorch_engine EXPORT_NAME mtorch)
set_target_properties(bindings PROPERTIES OUTPUT_NAME mtorch_bindings EXPORT_NAME lua)
target_compile_features(engine PUBLIC cxx_std_20)
install(TARGETS mtorch COMPONENT program)
install(DIRECTORY scripts/ DESTINATION ${CMAKE_INSTALL_DATADIR}/mtorch/scripts COMPONENT program
  PATTERN run.sh EXCLUDE PATTERN tools EXCLUDE PATTERN __pycache__ EXCLUDE)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
if(TARGET mtorch_jupyter)
  install(TARGETS mtorch_jupyter DESTINATION lib/mtorch COMPONENT program)
endif()
if(TARGET mtorch_cuda)
  install(TARGETS mtorch_cuda DESTINATION lib/mtorch COMPONENT cuda)
endif()
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)
install(TARGETS kernels engine bindings EXPORT mtorch INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS lua_module DESTINATION ${CMAKE_INSTALL_LIBDIR}/lua/5.1)
install(FILES ${stubs} DESTINATION ${CMAKE_INSTALL_DATADIR}/mtorch/stubs)

# ---- headers: <mtorch/mtorch.h>, <mtorch/lua.h> ---------------------------------------------------------------------
install(CODE "set(binary \"${PROJECT_BINARY_DIR}\")\nset(include \"${CMAKE_INSTALL_INCLUDEDIR}\")")
install(SCRIPT cmake/install_headers.cmake)

# ---- find_package(mtorch): mtorch::mtorch and mtorch::lua -----------------------------------------------------------
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mtorch)
configure_package_config_file(cmake/mtorchConfig.cmake.in mtorchConfig.cmake INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(mtorchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mtorchConfig.cmake ${PROJECT_BINARY_DIR}/mtorchConfigVersion.cmake
  DESTINATION ${package_dir})
install(EXPORT mtorch NAMESPACE mtorch:: FILE mtorchTargets.cmake DESTINATION ${package_dir})

# ---- the same for pkg-config, which finds the folder by the file's own place ----------------------------------------
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/mtorch.pc.in mtorch.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mtorch.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
