# find_package(fatlink) defines the target fatlink::fatlink. A target that links it has its CUDA files compiled for device LTO
# and is linked by fatlink:
#
#   find_package(fatlink REQUIRED)
#   target_link_libraries(app PRIVATE fatlink::fatlink)
#
# Every program, shared library and module with device code needs it; for a whole project fatlink-toolchain.cmake does the same.

get_filename_component(fatlink_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(fatlink_TOOLCHAIN_FILE "${CMAKE_CURRENT_LIST_DIR}/fatlink-toolchain.cmake")

if(NOT TARGET fatlink::fatlink)
  add_library(fatlink::fatlink INTERFACE IMPORTED)
  set_target_properties(fatlink::fatlink PROPERTIES
    INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANG_AND_ID:CUDA,Clang>:-fgpu-rdc;-foffload-lto>"
    # Clang runs its linker wrapper; g++ has none and runs fatlink as its linker.
    INTERFACE_LINK_OPTIONS "$<$<OR:$<LINK_LANG_AND_ID:CXX,Clang>,$<LINK_LANG_AND_ID:CUDA,Clang>>:-B${fatlink_PREFIX}/bin;--offload-link>;$<$<LINK_LANG_AND_ID:CXX,GNU>:-B${fatlink_PREFIX}/gcc>")
endif()
