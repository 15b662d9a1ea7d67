# fuzz.cmake -- libFuzzer targets for what parses bytes, tests/fuzz/fuzz_*.cpp: -DMTORCH_FUZZ=ON with clang
#
# The parsers are compiled once more, with the sanitizers and the fuzzer's marks; the rest of the engine stays as it is.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  message(FATAL_ERROR "MTORCH_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++")
endif()
file(GLOB fuzzed_sources CONFIGURE_DEPENDS engine/io/*.cpp engine/text/*.cpp)
set(fuzz_flags -O2 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all)
add_library(mtorch_fuzzed OBJECT ${fuzzed_sources})
target_link_libraries(mtorch_fuzzed PRIVATE mtorch_flags ${fmt} ZLIB::ZLIB)
target_compile_options(mtorch_fuzzed PRIVATE ${fuzz_flags} -fsanitize=fuzzer-no-link)
file(GLOB fuzz_targets CONFIGURE_DEPENDS tests/fuzz/fuzz_*.cpp)
foreach(source ${fuzz_targets})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source} $<TARGET_OBJECTS:mtorch_fuzzed>)
  target_link_libraries(${name} PRIVATE engine ZLIB::ZLIB)
  target_compile_options(${name} PRIVATE ${fuzz_flags} -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
endforeach()
