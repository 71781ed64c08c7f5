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
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CMAKE_CUDA_ARCHITECTURES CMAKE_C_COMPILER CMAKE_CXX_COMPILER CMAKE_CUDA_COMPILER)

# CMake identifies the CUDA compiler by a program without any target of its own; this is the first of the project's.
if(CMAKE_CUDA_ARCHITECTURES MATCHES "^([0-9]+[af]?)")
  set(CMAKE_CUDA_FLAGS_INIT "--offload-arch=sm_${CMAKE_MATCH_1}")
endif()
# Not for all configurations at once: that program is linked without the CUDA runtime, which relocatable device code needs.
foreach(_fatlink_configuration DEBUG RELEASE RELWITHDEBINFO MINSIZEREL)
  set(CMAKE_CUDA_FLAGS_${_fatlink_configuration}_INIT "-fgpu-rdc -foffload-lto")
endforeach()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release because fatlink-toolchain.cmake needs a build type")
endif()
foreach(_fatlink_kind EXE SHARED MODULE)
  set(CMAKE_${_fatlink_kind}_LINKER_FLAGS_INIT "-B${_fatlink_clang_folder} --offload-link")
endforeach()
