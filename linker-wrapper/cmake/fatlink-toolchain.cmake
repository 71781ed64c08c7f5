# A toolchain file: clang compiles C, C++ and CUDA, and fatlink does every link of the project.
#
#   cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES=90 \
#     -DCMAKE_TOOLCHAIN_FILE=PREFIX/lib/cmake/fatlink/fatlink-toolchain.cmake
#
# The reasons for the flags are in docs/build-systems.md.

include("${CMAKE_CURRENT_LIST_DIR}/fatlink-folders.cmake")

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

# CMake identifies the CUDA compiler by a program without any target of its own; this is the first of the project's.
if(CMAKE_CUDA_ARCHITECTURES MATCHES "^([0-9]+[af]?)")
  set(CMAKE_CUDA_FLAGS_INIT "--offload-arch=sm_${CMAKE_MATCH_1}")
endif()
# As options of the directory, which projects add to. Many of them set CMAKE_CUDA_FLAGS and CMAKE_CUDA_FLAGS_RELEASE anew. The program by
# which CMake identifies the compiler gets neither, so it links without the CUDA runtime, which relocatable device code needs.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CUDA,Clang>:-fgpu-rdc;-foffload-lto;-Wno-unknown-cuda-version>")

# Projects with CUDA_SEPARABLE_COMPILATION have their device code linked by fatlink, too, and not by CMake's call of nvlink.
set(CMAKE_CUDA_RESOLVE_DEVICE_SYMBOLS OFF)

if(NOT CMAKE_CUDA_COMPILER MATCHES "nvcc$")
  # Options of nvcc in the project's files become options of clang.
  if(NOT "--translate-nvcc" IN_LIST CMAKE_CUDA_COMPILER_LAUNCHER)
    list(PREPEND CMAKE_CUDA_COMPILER_LAUNCHER "${_fatlink_prefix}/bin/fatlink" --translate-nvcc)
  endif()
  set(CMAKE_USER_MAKE_RULES_OVERRIDE_CUDA "${CMAKE_CURRENT_LIST_DIR}/fatlink-cuda-rules.cmake")

  # CUDA 13 has Thrust, CUB and libcu++ in a folder of their own, which nvcc searches by itself, and CMake adds from 4.0 on.
  find_program(FATLINK_NVCC nvcc HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(FATLINK_NVCC)
  if(FATLINK_NVCC)
    get_filename_component(_fatlink_cccl "${FATLINK_NVCC}" REALPATH)
    get_filename_component(_fatlink_cccl "${_fatlink_cccl}/../../include/cccl" ABSOLUTE)
    if(IS_DIRECTORY "${_fatlink_cccl}" AND NOT "${_fatlink_cccl}" IN_LIST CMAKE_CUDA_STANDARD_INCLUDE_DIRECTORIES)
      list(APPEND CMAKE_CUDA_STANDARD_INCLUDE_DIRECTORIES "${_fatlink_cccl}")
    endif()
  endif()
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release because fatlink-toolchain.cmake needs a build type")
endif()
foreach(_fatlink_kind EXE SHARED MODULE)
  set(CMAKE_${_fatlink_kind}_LINKER_FLAGS_INIT "-B${_fatlink_clang_folder} --offload-link")
endforeach()
