# A toolchain file: clang compiles C, C++ and CUDA, and fatlink does every link of the project.
#
#   cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES=90 \
#     -DCMAKE_TOOLCHAIN_FILE=PREFIX/lib/cmake/fatlink/fatlink-toolchain.cmake
#
# The reasons for the flags are in docs/how-to/build-systems.md.

# Projects that call project() ahead of cmake_minimum_required() have the policies of ancient versions here.
cmake_policy(PUSH)
cmake_policy(VERSION 3.20)

include("${CMAKE_CURRENT_LIST_DIR}/fatlink-folders.cmake")

if(CMAKE_CUDA_COMPILER MATCHES "nvcc$")
  message(FATAL_ERROR "fatlink-toolchain.cmake has clang compile CUDA. Leave out CMAKE_CUDA_COMPILER; docs/how-to/build-systems.md says how CMake "
    "builds with nvcc and fatlink")
endif()
foreach(_fatlink_language C CXX CUDA)
  if(NOT CMAKE_${_fatlink_language}_COMPILER)
    set(CMAKE_${_fatlink_language}_COMPILER clang++)
  endif()
endforeach()
if(CMAKE_C_COMPILER STREQUAL "clang++")
  set(CMAKE_C_COMPILER clang)
endif()

# CMake's own test programs include this file, too, and get these variables only if they are listed.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CMAKE_CUDA_ARCHITECTURES CMAKE_C_COMPILER CMAKE_CXX_COMPILER CMAKE_CUDA_COMPILER
  CUDAToolkit_ROOT)

# CMake identifies the CUDA compiler by a program that is linked without any other flags, by LLVM's clang-linker-wrapper if clang finds one: Debian
# has it in a package of its own. That program has no target; this is the first of the project's.
set(CMAKE_CUDA_FLAGS_INIT "-B${_fatlink_clang_folder}")
if(CMAKE_CUDA_ARCHITECTURES MATCHES "^([0-9]+[af]?)")
  string(APPEND CMAKE_CUDA_FLAGS_INIT " --offload-arch=sm_${CMAKE_MATCH_1}")
endif()
# As options of the directory, which projects add to. Many of them set CMAKE_CUDA_FLAGS and CMAKE_CUDA_FLAGS_RELEASE anew. The program by
# which CMake identifies the compiler gets neither, so it links without the CUDA runtime, which relocatable device code needs.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CUDA,Clang>:-fgpu-rdc;-foffload-lto;-Wno-unknown-cuda-version>")
# Some projects, such as Kokkos, compile CUDA as C++, by -x cuda.
string(CONCAT _fatlink_device_options "--start-no-unused-arguments -fgpu-rdc -foffload-lto --end-no-unused-arguments "
  "-Wno-unknown-cuda-version")
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:${_fatlink_device_options}>")
# What nvcc's headers have and clang's lack.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CUDA,Clang>:SHELL:-include \"${CMAKE_CURRENT_LIST_DIR}/fatlink-min-max.h\">")
# To clang 22, CUDA 13 is unknown: it takes PTX 8.8 for it, which lacks these targets.
string(CONCAT _fatlink_clang_22 "$<COMPILE_LANG_AND_ID:CUDA,Clang>,$<VERSION_GREATER_EQUAL:$<CUDA_COMPILER_VERSION>,22>,"
  "$<VERSION_LESS:$<CUDA_COMPILER_VERSION>,23>")
foreach(_fatlink_target 88 110)
  set(_fatlink_is_target "$<IN_LIST:${_fatlink_target},$<TARGET_PROPERTY:CUDA_ARCHITECTURES>>")
  add_compile_options("$<$<AND:${_fatlink_clang_22},${_fatlink_is_target}>:SHELL:-Xarch_sm_${_fatlink_target} --cuda-feature=+ptx90>")
endforeach()

# Projects with CUDA_SEPARABLE_COMPILATION have their device code linked by fatlink, too, and not by CMake's call of nvlink.
set(CMAKE_CUDA_RESOLVE_DEVICE_SYMBOLS OFF)

# Options of nvcc in the project's files become options of clang.
if(NOT "--translate-nvcc" IN_LIST CMAKE_CUDA_COMPILER_LAUNCHER)
  list(PREPEND CMAKE_CUDA_COMPILER_LAUNCHER "${_fatlink_prefix}/bin/fatlink" --translate-nvcc)
endif()
set(CMAKE_USER_MAKE_RULES_OVERRIDE_CUDA "${CMAKE_CURRENT_LIST_DIR}/fatlink-cuda-rules.cmake")

# The toolkit, for links that are not in CUDA, too: clang's driver finds it for those in CUDA alone.
find_program(FATLINK_NVCC nvcc HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
mark_as_advanced(FATLINK_NVCC)
set(_fatlink_cuda_path "")
if(FATLINK_NVCC)
  get_filename_component(_fatlink_root "${FATLINK_NVCC}" REALPATH)
  get_filename_component(_fatlink_root "${_fatlink_root}/../.." ABSOLUTE)
  # CUDA 13 has Thrust, CUB and libcu++ in a folder of their own, which nvcc searches by itself, and CMake adds from 4.0 on.
  if(IS_DIRECTORY "${_fatlink_root}/include/cccl" AND NOT "${_fatlink_root}/include/cccl" IN_LIST CMAKE_CUDA_STANDARD_INCLUDE_DIRECTORIES)
    list(APPEND CMAKE_CUDA_STANDARD_INCLUDE_DIRECTORIES "${_fatlink_root}/include/cccl")
  endif()
  if(EXISTS "${_fatlink_root}/bin/ptxas")
    set(_fatlink_cuda_path " \"-Wl,--cuda-path=${_fatlink_root}\"")
  endif()
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release because fatlink-toolchain.cmake needs a build type")
endif()
foreach(_fatlink_kind EXE SHARED MODULE)
  set(CMAKE_${_fatlink_kind}_LINKER_FLAGS_INIT "-B${_fatlink_clang_folder} --offload-link${_fatlink_cuda_path}")
endforeach()

cmake_policy(POP)
