# CMake's rules for links in CUDA by clang, with nvcc's options translated: the project's flags for CUDA are on the line of the link, too, and
# CMake has no launcher for such links. fatlink-toolchain.cmake has CMake include this file behind the compiler's own rules, and before it takes
# the initial flags.

include("${CMAKE_CURRENT_LIST_DIR}/fatlink-folders.cmake")
foreach(_fatlink_rule LINK_EXECUTABLE CREATE_SHARED_LIBRARY CREATE_SHARED_MODULE)
  if(CMAKE_CUDA_${_fatlink_rule})
    set(CMAKE_CUDA_${_fatlink_rule} "\"${_fatlink_prefix}/bin/fatlink\" --translate-nvcc ${CMAKE_CUDA_${_fatlink_rule}}")
  endif()
endforeach()

# The compiler is identified. From now on the CUDA_ARCHITECTURES of each target say what it is compiled for.
string(REPLACE "-B${_fatlink_clang_folder}" "" CMAKE_CUDA_FLAGS_INIT "${CMAKE_CUDA_FLAGS_INIT}")
string(REGEX REPLACE "--offload-arch=sm_[0-9]+[af]?" "" CMAKE_CUDA_FLAGS_INIT "${CMAKE_CUDA_FLAGS_INIT}")
