# package.cmake -- what cpack makes from one build: Debian packages and a folder that can be moved (.tar.gz)
#
# Programs of such a build (MTORCH_PORTABLE) contain libstdc++ and fmt, and run on every distribution with glibc 2.34. By
# their run path they find lib/mtorch/ beside their bin/: the plug-in and, in the folder, what a bare machine lacks.
# It is RPATH, not RUNPATH, which the libraries of libraries would not use. cmake/wheel.py makes a wheel of the folder.

# ---- read by cpack, once for each kind -------------------------------------------------------------------------------
if(CPACK_BUILD_SOURCE_DIRS)
  if(CPACK_GENERATOR STREQUAL "DEB")
    list(REMOVE_ITEM CPACK_COMPONENTS_ALL libraries)
  else()
    list(REMOVE_ITEM CPACK_COMPONENTS_ALL dev)
    set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
    set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  endif()
  return()
endif()

# ---- programs that run elsewhere -------------------------------------------------------------------------------------
foreach(target mtorch mtorch_cuda)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH OFF BUILD_WITH_INSTALL_RPATH ON
      INSTALL_RPATH "$ORIGIN/../lib/mtorch")
    target_link_options(${target} PRIVATE -Wl,--disable-new-dtags -static-libstdc++)
    target_sources(${target} PRIVATE cmake/arc4random.cpp)
  endif()
endforeach()

# ---- OpenBLAS with what openblas.h lists: a third of its size --------------------------------------------------------
# And with kernels for seven kinds of processors instead of twenty: the others use those of an older kind whose
# instructions they have.
find_library(MTORCH_OPENBLAS_STATIC libopenblas.a REQUIRED HINTS ${OPENBLAS_LIBRARY_DIRS} ${OPENBLAS_LIBDIR}
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} PATH_SUFFIXES openblas-openmp)
file(READ kernels/cpu/libraries/openblas.h routines)
string(REGEX MATCHALL "X\\([a-z0-9]+, " routines "${routines}")
list(TRANSFORM routines REPLACE "X\\((.+), " "-Wl,-u,s\\1_,-u,d\\1_")
foreach(name openblas_get_parallel openblas_get_config openblas_get_corename cblas_sgemm cblas_dgemm)
  list(APPEND routines -Wl,-u,${name})
endforeach()
set(kinds COOPERLAKE=SKYLAKEX EXCAVATOR=HASWELL)
foreach(old CORE2 PENRYN DUNNINGTON ATOM NANO OPTERON OPTERON_SSE3 BARCELONA BOBCAT)
  list(APPEND kinds ${old}=PRESCOTT)
endforeach()
foreach(old BULLDOZER PILEDRIVER STEAMROLLER)
  list(APPEND kinds ${old}=SANDYBRIDGE)
endforeach()
if(ARM)
  set(kinds)
endif()
list(TRANSFORM kinds REPLACE "(.+)=(.+)" "-Wl,--defsym=gotoblas_\\1=gotoblas_\\2")
add_library(openblas SHARED cmake/fortran.cpp)
set_target_properties(openblas PROPERTIES SOVERSION 0)
target_link_options(openblas PRIVATE -s -Wl,--gc-sections -Wl,-z,defs -Wl,--as-needed ${routines} ${kinds})
target_link_libraries(openblas PRIVATE ${MTORCH_OPENBLAS_STATIC} gomp m pthread)

# ---- the folder's other libraries: what is opened at first use, what those need, and their licences ------------------
# libcurl, librsvg and xeus (for Jupyter), with dozens of libraries of their own, are the host's, and libedit, whose
# libbsd asks for glibc 2.36; so are glibc's, libgcc_s and CUDA's.
set(opened $<TARGET_SONAME_FILE:openblas>)
foreach(name libzip.so.5 libzip.so.4 libpng16.so.16 libturbojpeg.so.0 libpcre2-8.so.0 libutf8proc.so.3
    libutf8proc.so.2)
  find_file(${name}_file ${name} PATHS ${CMAKE_SYSTEM_LIBRARY_PATH} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
  mark_as_advanced(${name}_file)
  if(${name}_file)
    list(APPEND opened ${${name}_file})
  endif()
endforeach()
install(CODE "set(opened \"${opened}\")\nset(program \"$<TARGET_FILE:mtorch>\")" COMPONENT libraries)
install(CODE [[
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} LIBRARIES ${opened} RESOLVED_DEPENDENCIES_VAR needed
    PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread|gcc_s)[.]so" "^ld-linux")
  set(to "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  file(MAKE_DIRECTORY ${to}/lib/mtorch ${to}/share/doc/mtorch/licences)
  foreach(file ${opened} ${needed})
    cmake_path(GET file FILENAME name)
    file(COPY_FILE ${file} ${to}/lib/mtorch/${name})
    file(REAL_PATH ${file} real)
    cmake_path(GET real FILENAME real)
    if(real STREQUAL "libopenblas.so.0")
      set(real openblas-openmp/libopenblas.a)
    endif()
    execute_process(COMMAND dpkg-query -S "*/${real}" OUTPUT_VARIABLE package ERROR_QUIET)
    string(REGEX REPLACE ":.*" "" package "${package}")
    if(EXISTS /usr/share/doc/${package}/copyright)
      file(COPY_FILE /usr/share/doc/${package}/copyright ${to}/share/doc/mtorch/licences/${package})
    endif()
  endforeach()]] COMPONENT libraries)

# ---- cpack -----------------------------------------------------------------------------------------------------------
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_FILE})
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_VERSION ${MTORCH_VERSION})
set(CPACK_PACKAGE_CONTACT "the authors of mtorch <mtorch@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "tensors with gradients, neural networks and fast kernels in LuaJIT")
set(CPACK_PACKAGE_FILE_NAME mtorch-${MTORCH_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program dev libraries)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME mtorch)
set(CPACK_DEBIAN_PROGRAM_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS
  "libc6 (>= 2.34), libgcc-s1, libgomp1 (>= 12), zlib1g, libopenblas0-openmp")
# What is opened at first use, by its names in Debian 12, Debian 13 and Ubuntu 24.04.
string(CONCAT CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "libdnnl2 | libdnnl3.6 | libdnnl3, libedit2, "
  "libzip4 | libzip5 | libzip4t64, libpng16-16 | libpng16-16t64, libturbojpeg0 | libturbojpeg, "
  "libpcre2-8-0, libcurl4 | libcurl4t64, ca-certificates, libutf8proc2 | libutf8proc3, librsvg2-2, libxeus6")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "openmpi-bin, graphviz, mtorch-cuda, libmtorch-dev")
# The libraries are for the distribution that they are built on: messages are formatted by its fmt.
string(REGEX MATCH "^[0-9]+" fmt_major "${fmt_VERSION}")
math(EXPR fmt_next "${fmt_major} + 1")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libmtorch-dev)
set(CPACK_DEBIAN_DEV_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libfmt-dev (>= ${fmt_major}), libfmt-dev (<< ${fmt_next}), zlib1g-dev, libopenblas0-openmp, pkg-config | pkgconf")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "mtorch, libluajit2-5.1-dev | libluajit-5.1-dev")
set(CPACK_COMPONENT_DEV_DESCRIPTION
  "The engine for C++ programs (CMake and pkg-config find it), and the module mtorch for a stock LuaJIT.")
if(TARGET mtorch_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME mtorch-cuda)
  set(CPACK_DEBIAN_CUDA_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "libc6 (>= 2.34), libgcc-s1, mtorch (= ${MTORCH_VERSION})")
  set(CPACK_COMPONENT_CUDA_DESCRIPTION "The plug-in for NVIDIA GPUs. It opens the driver and the CUDA libraries of this machine.")
endif()
include(CPack)
