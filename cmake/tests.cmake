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

# ---- how tests are declared ----------------------------------------------------------------------

# A test that runs in the source folder. ENV: variables of the environment; PASS: what its output must match; SKIP: the
# status 77 means that something is missing here; NIGHTLY: only `ctest -C nightly -L nightly` runs it.
function(check name)
  cmake_parse_arguments(PARSE_ARGV 1 the "NIGHTLY;SERIAL;SKIP" "PASS;TIMEOUT" "RUN;ENV")
  set(configurations)
  if(the_NIGHTLY)
    set(configurations CONFIGURATIONS nightly)
  endif()
  add_test(NAME ${name} COMMAND ${the_RUN} ${configurations} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${the_ENV}" RUN_SERIAL ${the_SERIAL})
  if(the_NIGHTLY)
    set_tests_properties(${name} PROPERTIES LABELS nightly TIMEOUT 7200)
  endif()
  if(the_TIMEOUT)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${the_TIMEOUT})
  endif()
  if(the_SKIP)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
  if(the_PASS)
    set_tests_properties(${name} PROPERTIES PASS_REGULAR_EXPRESSION "${the_PASS}")
  endif()
endfunction()

# The Lua tests of these names again, as GROUP and name: RUN and then the file. FILES begins the names of the files.
function(check_again group names)
  cmake_parse_arguments(PARSE_ARGV 2 the "" "FILES;FLAGS" "RUN;ENV")
  foreach(name ${names})
    check(${group}${name} RUN ${the_RUN} tests/lua/test_${the_FILES}${name}.lua ENV ${the_ENV} ${the_FLAGS})
  endforeach()
endfunction()

set(plugin $<TARGET_FILE:mtorch_cuda_emulated>)
set(emulated MTORCH_CUDA_PLUGIN=${plugin})  # the plug-in's kernels on the CPU
set(emulated_1 ${emulated} OMP_NUM_THREADS=1)
set(on_device mtorch --threads 1 tests/lua/on_device.lua cuda)  # the emulated GPU is the default device

# ---- the engine, and the Lua surface -------------------------------------------------------------

foreach(tag ops half symbolic course accuracy reference shape reduce matmul linalg conv index autograd loss memory threads
    random optim profile io code cudnn nccl emitter onednn)
  check(engine.${tag} RUN mtorch_tests "[${tag}]")
endforeach()
# The course's tasks again, with the plug-in's kernels run on the CPU.
check(engine.course_cuda RUN mtorch_tests "[course]" ENV ${emulated_1})
set_tests_properties(engine.course_cuda PROPERTIES FAIL_REGULAR_EXPRESSION "skipped")
# All floats through every function: minutes on an idle machine.
check(nightly.accuracy RUN mtorch_tests "[nightly]" NIGHTLY SERIAL)

# Nightly all Lua tests interpreted, with loops compiled at once, and with the order of pairs shuffled.
file(GLOB lua_tests CONFIGURE_DEPENDS tests/lua/test_*.lua)
foreach(script ${lua_tests})
  get_filename_component(name ${script} NAME_WE)
  string(REPLACE "test_" "" name ${name})
  set(environment)
  if(name MATCHES "^(cuda_.*|out|profile)$")
    list(APPEND environment ${emulated_1})
  endif()
  if(name MATCHES "^cuda_(attention|half|operations|scan|softmax|sort)$")
    list(APPEND environment MTORCH_EMULATION=races,shuffle)
  endif()
  if(name MATCHES "^cuda_(index|softmax)$")  # wrong positions are reported at their line
    list(APPEND environment MTORCH_CUDA_SYNC=1)
  endif()
  if(name STREQUAL "reference")
    list(APPEND environment MTORCH_STUBS=${stubs})
  endif()
  check(lua.${name} RUN mtorch ${script} ENV ${environment})
  foreach(way interpreted hot shuffled)
    check(${way}.${name} RUN mtorch tests/lua/variant.lua ${way} ${script} ENV ${environment} NIGHTLY)
  endforeach()
endforeach()

# Random programs of views and changes in place, random functions of numbers, compiled, and of tensors, fused, random
# training steps, recorded; others every day.
check(nightly.programs RUN mtorch tests/lua/test_programs.lua 100000 today NIGHTLY)
check(nightly.functions RUN mtorch tests/lua/test_random_functions.lua 10000 today NIGHTLY)
check(nightly.fused RUN mtorch tests/lua/test_random_fused.lua 100000 today NIGHTLY)
check(nightly.kernels RUN mtorch tests/lua/test_kernel_random.lua 10000 today NIGHTLY)
check(nightly.steps RUN mtorch tests/lua/test_random_steps.lua 20000 today NIGHTLY)
check(nightly.compiled_lua RUN mtorch tests/lua/test_compiled_lua.lua 20000 today NIGHTLY)
# What workers are sent, in processes that compile other loops each.
check(nightly.worker_setups RUN mtorch tests/lua/test_worker_setups.lua 24 NIGHTLY)
# Ten minutes of training with all that keeps something: memory stays flat.
check(nightly.soak RUN mtorch tests/lua/soak.lua 10 NIGHTLY)
check(nightly.dist_faults RUN mtorch tests/lua/test_dist_faults.lua 300 today NIGHTLY SERIAL)
check(nightly.simulate RUN mtorch tests/lua/test_simulate.lua ENV ${emulated} NIGHTLY SERIAL)
check(hostile RUN mtorch tests/lua/hostile.lua)

# ---- Lua tests again, by other ways ----------------------------------------------------------------

# Convolutions without oneDNN.
check_again(own. "conv;conv_shapes" RUN mtorch ENV MTORCH_ONEDNN=off)
# Products and convolutions by the emulation's own cuBLAS, convolutions by its own cuDNN.
set(cublas ENV ${emulated} MTORCH_CUBLAS=${plugin} MTORCH_CUDA_SYNC=1)
check_again(cublas. "conv;cublas;half;product" FILES cuda_ RUN mtorch --threads 1 ${cublas})
check_again(cublas.device_ "conv;product;einsum;nn" RUN ${on_device} ${cublas})
set(cudnn ENV ${emulated} MTORCH_CUDNN=${plugin} MTORCH_CUDA_SYNC=1)
check_again(cudnn. "conv;cudnn" FILES cuda_ RUN mtorch --threads 1 ${cudnn})
check_again(cudnn.device_ "conv;nn" RUN ${on_device} ${cudnn})
# Processes with an emulated GPU each, by the emulation's own NCCL.
check_again(nccl. "dist;dist_collectives;dist_training;dist_shard;dist_compile" RUN mtorch --threads 1
  ENV ${emulated_1} MTORCH_NCCL=${plugin} MTORCH_EMULATED_GPU=eight TEST_DEVICE=cuda)
# Some of them again with the emulated GPU as the default device.
set(names autograd compile_fused create data distributions einsum elementwise errors fft float8 gradient half index inplace
  layers linalg loader master_weights metrics modules nn optim product random recurrent reduce schedulers sequence_values
  shape tensor training transforms wrong_calls)
check_again(device. "${names}" RUN ${on_device} ENV ${emulated} MTORCH_CUDA_SYNC=1)
# Steps are graphs where kernels are not synchronised one by one.
check_again(device. "compile;compile_notices" RUN ${on_device} ENV ${emulated_1})
# What depends on loops again, with the two instruction sets that all others do not run.
foreach(isa base avx2 avx512)
  set(with_isa sh tests/program/isa.sh $<TARGET_FILE:mtorch> ${isa})
  check(isa.${isa}.engine RUN ${with_isa} $<TARGET_FILE:mtorch_tests>
    [ops],[half],[accuracy],[reference],[reduce],[matmul],[conv],[index],[optim],[random] SKIP)
  check_again(isa.${isa}. "elementwise;reduce;sort;product;thin_products;nn;pool;conv_shapes;kernel;kernel_lanes;kernel_random;kernel_threads"
    RUN ${with_isa} $<TARGET_FILE:mtorch> FLAGS SKIP)
endforeach()
# What `run.sh train` builds has one instruction set.
check(isa.best RUN sh -c "cmake -S . -B ${CMAKE_BINARY_DIR}/best -G Ninja -DMTORCH_ISAS=best -DMTORCH_TESTS=OFF \
-DMTORCH_CUDA=OFF >/dev/null && test $(ninja -C ${CMAKE_BINARY_DIR}/best -t targets all | grep -c '/cpu/isa.cpp.o:') = 1")
# Grid kernels thread after thread, also those that would run in lanes.
check_again(threads. "kernel;kernel_random;kernel_threads" RUN mtorch ENV MTORCH_JIT=threads)

# ---- the house and the program -----------------------------------------------------------------------

check(house RUN mtorch tests/gates/house.lua)
foreach(path program/symbols program/blas program/install program/packages gates/format program/resume program/hosts)
  get_filename_component(script ${path} NAME)
  check(${script} RUN sh tests/${path}.sh ${CMAKE_BINARY_DIR} SKIP)
endforeach()
check(program RUN sh tests/program/program.sh ${CMAKE_BINARY_DIR} SKIP)
check(interrupt RUN sh tests/program/interrupt.sh ${CMAKE_BINARY_DIR} SKIP SERIAL)
check(nightly.interrupt RUN sh tests/program/interrupt.sh ${CMAKE_BINARY_DIR} all NIGHTLY SERIAL)
check(nightly.resume RUN sh tests/program/resume.sh ${CMAKE_BINARY_DIR} 200 NIGHTLY SERIAL)
check(nightly.hosts RUN sh tests/program/hosts.sh ${CMAKE_BINARY_DIR} all NIGHTLY SKIP)
# Each file includes what it uses: a build without precompiled headers.
check(nightly.includes RUN sh -c "cmake --preset nocuda -B ${CMAKE_BINARY_DIR}/includes -DMTORCH_TESTS=OFF \
-DMTORCH_OPTIMIZE=0 -DMTORCH_ISAS=native && cmake --build ${CMAKE_BINARY_DIR}/includes" NIGHTLY SERIAL)
check(nightly.packages RUN sh tests/program/packages.sh --bare NIGHTLY SKIP)

# Faults in the Lua code that can be seen without running it.
check(luacheck SKIP RUN sh -c "command -v luacheck >/dev/null || { echo skipped: luacheck is not here; exit 77; }; \
exec luacheck -q --no-color .")

# Tests by Python programs, which end with status 77 where what they need is missing: the debugger; the Jupyter kernel
# and the notebooks (xeus, jupyter_client, nbclient); the scripts and the guide's examples by the Lua language server;
# the guide as pages with search, and their links (MkDocs).
function(check_python name)
  string(JOIN " " words ${ARGN})
  check(${name} SKIP RUN sh -c
    "command -v python3 >/dev/null || { echo skipped: python3 is not here; exit 77; }; exec python3 ${words}")
endfunction()
foreach(name debugger jupyter notebooks)
  check_python(${name} tests/program/${name}.py $<TARGET_FILE:mtorch>)
endforeach()
check_python(language_server tests/program/language_server.py ${CMAKE_BINARY_DIR}/stubs)
check_python(guide scripts/tools/guide.py ${CMAKE_BINARY_DIR}/guide)
check(nightly.jupyterlab RUN python3 tests/program/jupyterlab.py $<TARGET_FILE:mtorch> NIGHTLY SKIP)

# The check of a GPU, on the emulated one: a few parts, and nightly all of it.
set(check_of_gpu ENV ${emulated_1} RUN mtorch scripts/tools/gpu_check.lua --emulated)
check(gpu_check ${check_of_gpu} --quick --only here,bench,models,large,cuda,device,script
  --out ${CMAKE_BINARY_DIR}/gpu_check PASS "10 passed, 4 not run: emulated[.].*relu/64Mi.*gpu_check.json")
check(nightly.gpu_check ${check_of_gpu} --out ${CMAKE_BINARY_DIR}/gpu_check_whole NIGHTLY SERIAL)

# The examples of CONTRIBUTING.md apply; nightly they are built and tested.
check(recipes RUN sh tests/gates/recipes.sh --apply ${CMAKE_BINARY_DIR}/recipes_applied SKIP)
check(nightly.recipes RUN sh tests/gates/recipes.sh ${CMAKE_BINARY_DIR}/recipes NIGHTLY SERIAL SKIP)
# The kernels compile for Arm; nightly the whole is built and tested under QEMU.
check(aarch64 RUN sh tests/gates/aarch64.sh syntax SKIP)
check(nightly.aarch64 RUN sh tests/gates/aarch64.sh NIGHTLY SERIAL SKIP TIMEOUT 14400)

# ---- every script that people run is a test with a target --------------------------------------------

check(script.train_split
  RUN mtorch scripts/train_split.lua --BACKEND cpu --HIDDEN 100 --DATASET split --RATE 0.05 --PTS 50
  PASS "Epoch  0  loss.*Epoch  490  loss.*final: .*correct=(49|50)/50")
check(script.train_split_seeds RUN mtorch scripts/train_split.lua --dataset diag --seeds 2 --epochs 40
  PASS "median of 2 seeds \\| worst .*\\| diag \\| [0-9.]+/50 \\| [0-9]+/50 ")
check(script.train_split_graph RUN mtorch scripts/train_split.lua --device cuda --hidden 10 --epochs 30 --seed 2
  ENV ${emulated_1} PASS "final: .*device=cuda")
check(script.matmul_ladder RUN mtorch scripts/lessons/matmul_ladder.lua --rows 500 --runs 2
  --plot ${CMAKE_BINARY_DIR}/ladder.svg PASS "The whole set.*\\| matmul \\|.*chart: ")
# Those of the GPU in small, with the kernels run on the CPU.
set(small_threads --n 2000)
set(small_reduce --largest 5000)
set(small_matmul --largest 64 --rows 40)
set(small_conv2d --height 40 --width 50)
foreach(name threads reduce matmul conv2d)
  set(file ${CMAKE_BINARY_DIR}/cuda_${name})
  check(script.cuda_${name} RUN mtorch --threads 1 scripts/lessons/cuda_${name}.lua ${small_${name}} --runs 1
    --csv ${file}.csv --plot ${file}.svg ENV ${emulated} MTORCH_CACHE=off
    PASS "GPU: .*right.*table: .*csv|skipped: .*NVRTC")
endforeach()
check(script.puzzles RUN mtorch scripts/lessons/puzzles.lua --solutions
  PASS "14 ok, 0 wrong, 0 not written yet")
# Scripts that train something, everything once in small.
foreach(name vae sweep regression cartpole train_sentiment transfer char_lstm gpt2)
  check(script.${name} RUN mtorch scripts/${name}.lua --dry-run PASS "final: [a-z_]+=[0-9.]+ ")
endforeach()
check(script.train_parallel RUN mtorch scripts/train_parallel.lua --epochs 10 PASS "1 process with equal nets")
check(script.bench RUN mtorch scripts/bench.lua --quick --only add)
check(script.bench_peer RUN mtorch scripts/bench.lua --quick --only matmul/64x --peer cblas
  PASS "matmul/64x64x64 +[0-9.]+ +[0-9.]+ +[0-9.]+")

# ---- which tests run ---------------------------------------------------------------------------------

if(ARM)
  set_tests_properties(engine.emitter PROPERTIES DISABLED ON)
endif()
# Without the compiler: those that are about it, or read every name.
if(NOT MTORCH_COMPILER)
  get_property(all DIRECTORY PROPERTY TESTS)
  list(FILTER all INCLUDE REGEX "[._](api_names|bench|compile.*|cuda_(compile|fuse|grid|kernel|map)|explain|functions|fuse|fused|\
kernel.*|map|matmul_cpu|names|puzzles|programs|random_(functions|fused|steps)|readme|reference|reload|steps|threads_cpu|\
wrong_functions)$|^script[.](bench|cuda)|^engine[.](code|emitter)$|^gpu_check$|\
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
^isa[.](base|avx2)[.](elementwise|reduce)$|^script[.]train_split|^(house|format|luacheck|symbols|hostile)$")
list(FILTER quick EXCLUDE REGEX "engine[.]course_cuda|lua[.](memory|cuda_|dist_faults|train_gpt)")
list(APPEND quick lua.cuda_operations)
set_property(TEST ${quick} APPEND PROPERTY LABELS quick)
