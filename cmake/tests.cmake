# tests.cmake -- every test: Catch2 for the engine, Lua scripts for the surface, shell scripts for the program
find_package(Catch2 REQUIRED)

file(GLOB test_sources CONFIGURE_DEPENDS tests/unit/*.cpp)
if(NOT MTORCH_COMPILER)
  list(FILTER test_sources EXCLUDE REGEX "test_(emitter|lower|step_plan)[.]cpp$")
elseif(ARM)
  list(FILTER test_sources EXCLUDE REGEX "test_emitter[.]cpp$")
endif()
add_executable(mtorch_tests ${test_sources})
target_link_libraries(mtorch_tests PRIVATE engine Catch2::Catch2 ZLIB::ZLIB)
target_compile_options(mtorch_tests PRIVATE -O1)
if(MTORCH_PCH)
  target_precompile_headers(mtorch_tests PRIVATE tests/unit/support.h)
  # main.cpp needs Catch2's own code; the others declare types of lanes before the formulas that take them.
  set_source_files_properties(tests/unit/main.cpp tests/unit/test_emitter.cpp tests/unit/test_lower.cpp PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON)
endif()
# What is declared of cuDNN and NCCL is compared with their own headers, where those are there.
foreach(header cudnn.h cuda_runtime_api.h nccl.h)
  find_path(folder_of_${header} ${header} HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES include)
  mark_as_advanced(folder_of_${header})
  if(folder_of_${header})
    set_property(SOURCE tests/unit/test_cudnn.cpp tests/unit/test_nccl.cpp APPEND PROPERTY COMPILE_OPTIONS
      -idirafter ${folder_of_${header}})
  endif()
endforeach()
target_compile_definitions(mtorch_tests PRIVATE MT_TESTS_DIR="${CMAKE_SOURCE_DIR}/tests")
foreach(tag ops half symbolic course accuracy reference shape reduce matmul linalg conv index autograd loss memory threads
    random optim profile io code cudnn nccl emitter onednn)
  add_test(NAME engine.${tag} COMMAND mtorch_tests "[${tag}]" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endforeach()

# The course's tasks again, with the plug-in's kernels run on the CPU.
add_test(NAME engine.course_cuda COMMAND mtorch_tests "[course]" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(engine.course_cuda PROPERTIES
  ENVIRONMENT "MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>;OMP_NUM_THREADS=1" FAIL_REGULAR_EXPRESSION "skipped")

# All floats through every function: minutes on an idle machine. `ctest -C nightly -L nightly` runs it.
add_test(NAME nightly.accuracy COMMAND mtorch_tests "[nightly]" CONFIGURATIONS nightly)
set_tests_properties(nightly.accuracy PROPERTIES LABELS nightly RUN_SERIAL ON TIMEOUT 7200)
# Random programs of views and changes in place, random functions of numbers, compiled, and of tensors, fused, random
# training steps, recorded; others every day.
add_test(NAME nightly.programs COMMAND mtorch tests/lua/test_programs.lua 100000 today
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} CONFIGURATIONS nightly)
add_test(NAME nightly.functions COMMAND mtorch tests/lua/test_random_functions.lua 10000 today
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} CONFIGURATIONS nightly)
add_test(NAME nightly.fused COMMAND mtorch tests/lua/test_random_fused.lua 100000 today
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} CONFIGURATIONS nightly)
add_test(NAME nightly.steps COMMAND mtorch tests/lua/test_random_steps.lua 20000 today
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} CONFIGURATIONS nightly)
# What workers are sent, in processes that compile other loops each.
add_test(NAME nightly.worker_setups COMMAND mtorch tests/lua/test_worker_setups.lua 24
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} CONFIGURATIONS nightly)
add_test(NAME nightly.compiled_lua COMMAND mtorch tests/lua/test_compiled_lua.lua 20000 today
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} CONFIGURATIONS nightly)
# Ten minutes of training with all that keeps something: memory stays flat.
add_test(NAME nightly.soak COMMAND mtorch tests/lua/soak.lua 10 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} CONFIGURATIONS nightly)
set_tests_properties(nightly.programs nightly.functions nightly.fused nightly.steps nightly.worker_setups
  nightly.compiled_lua nightly.soak PROPERTIES LABELS nightly TIMEOUT 7200)

file(GLOB lua_tests CONFIGURE_DEPENDS tests/lua/test_*.lua)
foreach(script ${lua_tests})
  get_filename_component(name ${script} NAME_WE)
  string(REPLACE "test_" "lua." name ${name})
  add_test(NAME ${name} COMMAND mtorch ${script} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(name MATCHES "^lua.(cuda_.*|out|profile)$")  # the plug-in's kernels on the CPU
    set_tests_properties(${name} PROPERTIES
      ENVIRONMENT "MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>;OMP_NUM_THREADS=1")
  endif()
  if(name MATCHES "^lua.cuda_(attention|half|operations|scan|softmax|sort)$")
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT MTORCH_EMULATION=races,shuffle)
  endif()
  if(name MATCHES "^lua.cuda_(index|softmax)$")  # wrong positions are reported at their line
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT MTORCH_CUDA_SYNC=1)
  endif()
endforeach()

# Convolutions without oneDNN.
foreach(name conv conv_shapes)
  add_test(NAME own.${name} COMMAND mtorch tests/lua/test_${name}.lua WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(own.${name} PROPERTIES ENVIRONMENT MTORCH_ONEDNN=off)
endforeach()

set_property(TEST lua.reference APPEND PROPERTY ENVIRONMENT MTORCH_STUBS=${stubs})

# Nightly all of them interpreted, with loops compiled at once, and with the order of pairs shuffled.
foreach(script ${lua_tests})
  get_filename_component(name ${script} NAME_WE)
  string(REPLACE "test_" "" name ${name})
  get_test_property(lua.${name} ENVIRONMENT environment)
  foreach(way interpreted hot shuffled)
    add_test(NAME ${way}.${name} COMMAND mtorch tests/lua/variant.lua ${way} ${script} CONFIGURATIONS nightly
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${way}.${name} PROPERTIES LABELS nightly TIMEOUT 7200)
    if(environment)
      set_tests_properties(${way}.${name} PROPERTIES ENVIRONMENT "${environment}")
    endif()
  endforeach()
endforeach()

# Products and convolutions by the emulation's own cuBLAS.
foreach(name conv cublas half product)
  add_test(NAME cublas.${name} COMMAND mtorch --threads 1 tests/lua/test_cuda_${name}.lua
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endforeach()
foreach(name conv product einsum nn)
  add_test(NAME cublas.device_${name} COMMAND mtorch --threads 1 tests/lua/on_device.lua cuda tests/lua/test_${name}.lua
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endforeach()
set_tests_properties(cublas.conv cublas.cublas cublas.half cublas.product cublas.device_conv cublas.device_product
  cublas.device_einsum cublas.device_nn PROPERTIES ENVIRONMENT "MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>;MTORCH_CUBLAS=$<TARGET_FILE:mtorch_cuda_emulated>;MTORCH_CUDA_SYNC=1")

# Convolutions by its own cuDNN.
foreach(name conv cudnn)
  add_test(NAME cudnn.${name} COMMAND mtorch --threads 1 tests/lua/test_cuda_${name}.lua
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endforeach()
foreach(name conv nn)
  add_test(NAME cudnn.device_${name} COMMAND mtorch --threads 1 tests/lua/on_device.lua cuda tests/lua/test_${name}.lua
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endforeach()
set_tests_properties(cudnn.conv cudnn.cudnn cudnn.device_conv cudnn.device_nn PROPERTIES ENVIRONMENT
  "MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>;MTORCH_CUDNN=$<TARGET_FILE:mtorch_cuda_emulated>;MTORCH_CUDA_SYNC=1")

# Processes with an emulated GPU each, by the emulation's own NCCL.
foreach(name dist dist_collectives dist_training dist_compile)
  add_test(NAME nccl.${name} COMMAND mtorch --threads 1 tests/lua/test_${name}.lua WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(nccl.${name} PROPERTIES ENVIRONMENT
    "MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>;MTORCH_NCCL=$<TARGET_FILE:mtorch_cuda_emulated>;MTORCH_EMULATED_GPU=eight;TEST_DEVICE=cuda;OMP_NUM_THREADS=1")
endforeach()

add_test(NAME nightly.simulate COMMAND mtorch tests/lua/test_simulate.lua WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
  CONFIGURATIONS nightly)
set_tests_properties(nightly.simulate PROPERTIES LABELS nightly RUN_SERIAL ON
  ENVIRONMENT "MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>")

# Some of them again with the emulated GPU as the default device.
foreach(name autograd compile compile_fused compile_notices create data distributions einsum elementwise errors fft float8 gradient half index inplace layers linalg loader master_weights metrics modules nn
    optim product random recurrent reduce schedulers sequence_values shape tensor training transforms wrong_arguments wrong_shapes wrong_values)
  add_test(NAME device.${name} COMMAND mtorch --threads 1 tests/lua/on_device.lua cuda tests/lua/test_${name}.lua
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(device.${name} PROPERTIES
    ENVIRONMENT "MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>;MTORCH_CUDA_SYNC=1")
endforeach()
# Steps are graphs where kernels are not synchronised one by one.
set_tests_properties(device.compile device.compile_notices PROPERTIES
  ENVIRONMENT "MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>;OMP_NUM_THREADS=1")

# What depends on loops again, with the two instruction sets that all others do not run.
foreach(isa base avx2 avx512)
  set(with_isa sh tests/program/isa.sh $<TARGET_FILE:mtorch> ${isa})
  add_test(NAME isa.${isa}.engine COMMAND ${with_isa} $<TARGET_FILE:mtorch_tests> "~[nightly]"
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  foreach(name elementwise reduce sort product thin_products nn pool conv_shapes kernel kernel_random)
    add_test(NAME isa.${isa}.${name} COMMAND ${with_isa} $<TARGET_FILE:mtorch> tests/lua/test_${name}.lua
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  endforeach()
  foreach(name engine elementwise reduce sort product thin_products nn pool conv_shapes kernel kernel_random)
    set_tests_properties(isa.${isa}.${name} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
endforeach()

# Grid kernels thread after thread, also those that would run in lanes.
foreach(name kernel kernel_random kernel_threads)
  add_test(NAME threads.${name} COMMAND mtorch tests/lua/test_${name}.lua WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(threads.${name} PROPERTIES ENVIRONMENT "MTORCH_JIT=threads")
endforeach()

add_test(NAME hostile COMMAND mtorch tests/lua/hostile.lua WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})

# The checks of the house and of the program.
add_test(NAME house COMMAND mtorch tests/gates/house.lua WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_executable(mtorch_gdb tests/program/gdb/main.cpp)
target_link_libraries(mtorch_gdb PRIVATE engine)
# clang would describe a type where its constructors are, in the engine, which may have no debug information.
target_compile_options(mtorch_gdb PRIVATE -g -O0 $<$<CXX_COMPILER_ID:Clang>:-fstandalone-debug>)
foreach(path program/symbols program/program program/interrupt program/blas program/install program/packages gates/format
    program/gdb program/resume program/hosts)
  get_filename_component(script ${path} NAME)
  add_test(NAME ${script} COMMAND sh tests/${path}.sh ${CMAKE_BINARY_DIR} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${script} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
add_test(NAME nightly.interrupt COMMAND sh tests/program/interrupt.sh ${CMAKE_BINARY_DIR} all CONFIGURATIONS nightly
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME nightly.resume COMMAND sh tests/program/resume.sh ${CMAKE_BINARY_DIR} 200 CONFIGURATIONS nightly
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME nightly.hosts COMMAND sh tests/program/hosts.sh ${CMAKE_BINARY_DIR} all CONFIGURATIONS nightly
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME nightly.dist_faults COMMAND mtorch tests/lua/test_dist_faults.lua 300 today CONFIGURATIONS nightly
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME nightly.packages COMMAND sh tests/program/packages.sh --bare CONFIGURATIONS nightly
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(nightly.interrupt nightly.resume nightly.hosts nightly.dist_faults nightly.packages PROPERTIES
  LABELS nightly TIMEOUT 7200)
set_tests_properties(nightly.hosts nightly.packages PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(program interrupt nightly.interrupt nightly.resume nightly.dist_faults PROPERTIES RUN_SERIAL ON)

# Faults in the Lua code that can be seen without running it.
add_test(NAME luacheck COMMAND sh -c "command -v luacheck >/dev/null || { echo skipped: luacheck is not here; exit 77; }; \
exec luacheck -q --no-color ." WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(luacheck PROPERTIES SKIP_RETURN_CODE 77)

# Tests by Python programs, which end with status 77 where what they need is missing: the debugger; the Jupyter kernel
# and the notebooks (xeus, jupyter_client, nbclient); the scripts and the guide's examples by the Lua language server;
# the guide as pages with search, and their links (MkDocs).
function(add_python_test name program)
  add_test(NAME ${name} COMMAND sh -c "command -v python3 >/dev/null || { echo skipped: python3 is not here; exit 77; }; \
exec python3 ${program} ${ARGN}" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
foreach(name debugger jupyter notebooks)
  add_python_test(${name} tests/program/${name}.py $<TARGET_FILE:mtorch>)
endforeach()
add_python_test(language_server tests/program/language_server.py ${CMAKE_BINARY_DIR}/stubs)
add_python_test(guide scripts/tools/guide.py ${CMAKE_BINARY_DIR}/guide)

add_test(NAME nightly.jupyterlab COMMAND python3 tests/program/jupyterlab.py $<TARGET_FILE:mtorch>
  CONFIGURATIONS nightly WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(nightly.jupyterlab PROPERTIES SKIP_RETURN_CODE 77 LABELS nightly)

# The check of a GPU, on the emulated one: a few parts, and nightly all of it.
add_test(NAME gpu_check COMMAND sh scripts/tools/gpu_check.sh --emulated --quick --out ${CMAKE_BINARY_DIR}/gpu_check
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(gpu_check PROPERTIES PASS_REGULAR_EXPRESSION
  "13 passed, 4 not run: emulated[.].*relu/64Mi.*gpu_check.json")
add_test(NAME nightly.gpu_check COMMAND sh scripts/tools/gpu_check.sh --emulated --out ${CMAKE_BINARY_DIR}/gpu_check_whole
  CONFIGURATIONS nightly WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(nightly.gpu_check PROPERTIES LABELS nightly RUN_SERIAL ON TIMEOUT 7200)
foreach(name gpu_check nightly.gpu_check)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "MTORCH=$<TARGET_FILE:mtorch>;MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>;OMP_NUM_THREADS=1")
endforeach()

# The examples of CONTRIBUTING.md apply; nightly they are built and tested.
add_test(NAME recipes COMMAND sh tests/gates/recipes.sh --apply ${CMAKE_BINARY_DIR}/recipes_applied
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME nightly.recipes COMMAND sh tests/gates/recipes.sh ${CMAKE_BINARY_DIR}/recipes CONFIGURATIONS nightly
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(recipes nightly.recipes PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(nightly.recipes PROPERTIES LABELS nightly RUN_SERIAL ON TIMEOUT 7200)

# The cross build for Arm, with tests under QEMU.
add_test(NAME nightly.aarch64 COMMAND sh tests/gates/aarch64.sh CONFIGURATIONS nightly
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(nightly.aarch64 PROPERTIES SKIP_RETURN_CODE 77 LABELS nightly RUN_SERIAL ON TIMEOUT 14400)

# Every script that people run is a test with a target.
add_test(NAME script.train_split
  COMMAND mtorch scripts/train_split.lua --BACKEND cpu --HIDDEN 100 --DATASET split --RATE 0.05 --PTS 50
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.train_split PROPERTIES PASS_REGULAR_EXPRESSION
  "Epoch  0  loss.*Epoch  490  loss.*final: .*correct=(49|50)/50")
add_test(NAME script.train_split_seeds COMMAND mtorch scripts/train_split.lua --dataset diag --seeds 2 --epochs 40
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.train_split_seeds PROPERTIES PASS_REGULAR_EXPRESSION
  "median of 2 seeds \\| worst .*\\| diag \\| [0-9.]+/50 \\| [0-9]+/50 ")
add_test(NAME script.train_split_graph
  COMMAND mtorch scripts/train_split.lua --device cuda --hidden 10 --epochs 30 --seed 2 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.train_split_graph PROPERTIES PASS_REGULAR_EXPRESSION "final: .*device=cuda"
  ENVIRONMENT "MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>;OMP_NUM_THREADS=1")
add_test(NAME script.matmul_ladder COMMAND mtorch scripts/lessons/matmul_ladder.lua --rows 500 --runs 2
  --plot ${CMAKE_BINARY_DIR}/ladder.svg WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.matmul_ladder PROPERTIES PASS_REGULAR_EXPRESSION
  "storage of 3 numbers.*GB/s, .*\\| matmul \\|.*chart: ")
# Those of the GPU in small, with the kernels run on the CPU.
foreach(script "threads --n 2000 --cpu 2000" "reduce --largest 5000" "matmul --largest 64 --rows 40 --size 64" "conv2d --height 40 --width 50")
  separate_arguments(words UNIX_COMMAND "${script}")
  list(POP_FRONT words name)
  add_test(NAME script.cuda_${name} COMMAND mtorch --threads 1 ${CMAKE_SOURCE_DIR}/scripts/lessons/cuda_${name}.lua ${words}
    --runs 1 --csv ${CMAKE_BINARY_DIR}/cuda_${name}.csv --plot ${CMAKE_BINARY_DIR}/cuda_${name}.svg)
  set_tests_properties(script.cuda_${name} PROPERTIES PASS_REGULAR_EXPRESSION "GPU: .*right.*table: .*csv|skipped: .*NVRTC"
    ENVIRONMENT "MTORCH_CUDA_PLUGIN=$<TARGET_FILE:mtorch_cuda_emulated>;MTORCH_CACHE=off")
endforeach()
# And without a GPU: the kernels in Lua on the CPU, each checked.
foreach(script "threads --cpu 5000" "matmul --size 128" "conv2d --height 40 --width 50")
  separate_arguments(words UNIX_COMMAND "${script}")
  list(POP_FRONT words name)
  add_test(NAME script.cuda_${name}_cpu COMMAND mtorch ${CMAKE_SOURCE_DIR}/scripts/lessons/cuda_${name}.lua ${words} --runs 1
    --csv ${CMAKE_BINARY_DIR}/${name}.csv --plot "")
  set_tests_properties(script.cuda_${name}_cpu PROPERTIES ENVIRONMENT MTORCH_CUDA_PLUGIN=none
    PASS_REGULAR_EXPRESSION "right.*out of bounds.*table: .*_cpu.csv.*skipped: the rest")
endforeach()
add_test(NAME script.fusion COMMAND mtorch scripts/lessons/fusion.lua --rows 400 --columns 100 --runs 1
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.fusion PROPERTIES PASS_REGULAR_EXPRESSION
  "mt.fuse +. +1 .*layer norm: MB read and written.*all ways give the same results and gradients")
add_test(NAME script.puzzles COMMAND mtorch scripts/lessons/puzzles.lua --solutions --runs 1
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.puzzles PROPERTIES PASS_REGULAR_EXPRESSION "14 ok, 0 wrong, 0 not written yet")
add_test(NAME script.parallel_check COMMAND mtorch scripts/lessons/parallel_check.lua --size 300
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.parallel_check PROPERTIES PASS_REGULAR_EXPRESSION
  "MAP.*ZIP.*REDUCE.*MATRIX MULTIPLY.*YOUR OWN.*pieces for [0-9]+ threads.*all right")
# Scripts that train something, everything once in small.
foreach(name vae sweep regression cartpole train_sentiment transfer char_lstm
  char_gpt gpt2)
  add_test(NAME script.${name} COMMAND mtorch ${CMAKE_SOURCE_DIR}/scripts/${name}.lua --dry-run)
  set_tests_properties(script.${name} PROPERTIES PASS_REGULAR_EXPRESSION "final: [a-z_]+=[0-9.]+ ")
endforeach()
add_test(NAME script.custom_ops COMMAND mtorch scripts/lessons/custom_ops.lua --epochs 60 --limit 3
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.custom_ops PROPERTIES PASS_REGULAR_EXPRESSION "16 operators.*the operators above.*right: ")
add_test(NAME script.train_parallel COMMAND mtorch scripts/train_parallel.lua --epochs 10 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.train_parallel PROPERTIES PASS_REGULAR_EXPRESSION "1 process with equal nets")
add_test(NAME script.compiled COMMAND mtorch scripts/lessons/compiled.lua --largest 16384 --runs 2
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.compiled PROPERTIES PASS_REGULAR_EXPRESSION "where the time goes.*mt.map.*right: ")
add_test(NAME script.bench_threads COMMAND mtorch scripts/bench/threads.lua --runs 2 --busy 1
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.bench_threads PROPERTIES PASS_REGULAR_EXPRESSION "exp +1 .*512\\^3 +1 +[0-9.]+ ")
add_test(NAME script.bench COMMAND mtorch scripts/bench.lua --quick --only add WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME script.bench_sittings COMMAND mtorch scripts/bench.lua --quick --only matmul/64x --peer cblas --sittings 2
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(script.bench_sittings PROPERTIES PASS_REGULAR_EXPRESSION "matmul/64x64x64 +[0-9.]+ +[0-9.]+ +[0-9.]+")

if(ARM)
  set_tests_properties(engine.emitter PROPERTIES DISABLED ON)
endif()
# Without the compiler: those that are about it, or read every name.
if(NOT MTORCH_COMPILER)
  get_property(all DIRECTORY PROPERTY TESTS)
  list(FILTER all INCLUDE REGEX "[._](api_names|compile.*|cuda_(compile|fuse|grid|kernel|map)|explain|functions|fuse|fused|\
kernel.*|map|matmul_cpu|names|puzzles|programs|random_(functions|fused|steps)|readme|reference|reload|steps|threads_cpu|\
wrong_functions)$|^script[.](bench|compiled|conv2d|cuda|custom_ops|fusion|parallel)|^engine[.](code|emitter)$|^gpu_check$|\
^recipes$|^language_server$|^nightly[.]|^(interpreted|hot|shuffled)[.]|^install$|^hostile$")
  set_tests_properties(${all} PROPERTIES DISABLED ON)
endif()

# What the tests need is built before they run: the dev preset builds the program alone.
get_property(all DIRECTORY PROPERTY TESTS)
set_property(TEST ${all} PROPERTY FIXTURES_REQUIRED built)
add_test(NAME build COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR})
set_tests_properties(build PROPERTIES FIXTURES_SETUP built TIMEOUT 7200)

# `ctest -L quick -j2` answers in half a minute: of each kind those that take up to two seconds, and engine.ops.
get_property(quick DIRECTORY PROPERTY TESTS)
list(FILTER quick INCLUDE REGEX "^(engine|lua)[.]|^cublas[.]half$|^device[.](elementwise|index|nn|random|shape|training)$|\
^isa[.](base|avx2)[.](elementwise|reduce)$|^script[.]train_split|^(house|format|gdb|luacheck|symbols|hostile)$")
list(FILTER quick EXCLUDE REGEX "engine[.]course_cuda|lua[.](memory|cuda_|dist_faults|train_gpt)")
list(APPEND quick lua.cuda_operations)
set_property(TEST ${quick} APPEND PROPERTY LABELS quick)
