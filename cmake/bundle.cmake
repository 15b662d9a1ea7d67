# bundle.cmake -- run paths for a folder that can be moved: bin/ finds lib/ (scripts/tools/bundle.sh puts it together)
#
# RPATH, not RUNPATH: it is used for the libraries of libraries too, which have no run path of their own. libstdc++ goes
# into each program, so that hosts with an older glibc than Debian 12's (2.36) can run them.
set(bundled mtorch)
if(MTORCH_TESTS)
  list(APPEND bundled mtorch_tests mtorch_cuda_emulated)
  target_compile_definitions(mtorch_tests PRIVATE MT_TESTS_DIR="tests")  # from the bundle's folder
endif()
if(TARGET mtorch_cuda)
  list(APPEND bundled mtorch_cuda)
endif()
foreach(target ${bundled})
  set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH OFF BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN/../lib")
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags -static-libstdc++)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/arc4random.cpp)
endforeach()
