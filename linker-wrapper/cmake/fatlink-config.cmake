# find_package(fatlink) defines
#
#   fatlink_target(app lib...)   these targets are compiled for device LTO and linked by fatlink
#   fatlink_require(app GPUS g... DRIVERS d...)   the build fails if app does not run on these GPUs with these drivers
#   fatlink::fatlink             the same for a target that links it: target_link_libraries(app PRIVATE fatlink::fatlink)
#   LINKER_TYPE fatlink          from CMake 3.29, as a property of a target or as CMAKE_LINKER_TYPE: only the link
#   fatlink::linker, fatlink::offload-bundle, fatlink::fatlink-slurm, fatlink::fatlink-reapi   the programs, as imported executables
#   fatlink_TOOLCHAIN_FILE       the toolchain file that does all of this for a whole project
#
# Every program, shared library and module with device code has to be linked by fatlink. The reasons are in docs/how-to/build-systems.md.

include("${CMAKE_CURRENT_LIST_DIR}/fatlink-folders.cmake")
set(fatlink_PREFIX "${_fatlink_prefix}")
set(fatlink_TOOLCHAIN_FILE "${CMAKE_CURRENT_LIST_DIR}/fatlink-toolchain.cmake")

# Clang runs its linker wrapper; other compilers have none and run fatlink as their linker.
set(_fatlink_clang_link "-B${_fatlink_clang_folder}" --offload-link)
set(_fatlink_gcc_link "-B${_fatlink_gcc_folder}")
set(_fatlink_compile_options "$<$<COMPILE_LANG_AND_ID:CUDA,Clang>:-fgpu-rdc;-foffload-lto>")
set(_fatlink_clang_links "$<OR:$<LINK_LANG_AND_ID:CXX,Clang>,$<LINK_LANG_AND_ID:CUDA,Clang>,$<LINK_LANG_AND_ID:C,Clang>>")
# CMake links the objects of nvcc by its host compiler.
set(_fatlink_gcc_links "$<OR:$<LINK_LANG_AND_ID:CXX,GNU>,$<LINK_LANG_AND_ID:CUDA,NVIDIA>,$<LINK_LANG_AND_ID:C,GNU>>")
set(_fatlink_link_options "$<${_fatlink_clang_links}:${_fatlink_clang_link}>;$<${_fatlink_gcc_links}:${_fatlink_gcc_link}>")

foreach(_fatlink_program fatlink offload-bundle fatlink-slurm fatlink-reapi)
  set(_fatlink_target "fatlink::${_fatlink_program}")
  if(_fatlink_program STREQUAL "fatlink")
    set(_fatlink_target fatlink::linker)
  endif()
  if(NOT TARGET ${_fatlink_target})
    if(NOT EXISTS "${fatlink_PREFIX}/bin/${_fatlink_program}")
      set(fatlink_FOUND FALSE)
      set(fatlink_NOT_FOUND_MESSAGE "${fatlink_PREFIX}/bin/${_fatlink_program} is missing: install fatlink again")
      return()
    endif()
    add_executable(${_fatlink_target} IMPORTED)
    set_target_properties(${_fatlink_target} PROPERTIES IMPORTED_LOCATION "${fatlink_PREFIX}/bin/${_fatlink_program}")
  endif()
endforeach()

if(NOT TARGET fatlink::fatlink)
  add_library(fatlink::fatlink INTERFACE IMPORTED)
  set_target_properties(fatlink::fatlink PROPERTIES
    INTERFACE_COMPILE_OPTIONS "${_fatlink_compile_options}"
    INTERFACE_LINK_OPTIONS "${_fatlink_link_options}")
endif()

# The linker type. CMake reserves names in capitals for itself.
foreach(_fatlink_language C CXX CUDA)
  if(CMAKE_${_fatlink_language}_COMPILER_ID STREQUAL "Clang")
    set(CMAKE_${_fatlink_language}_USING_LINKER_fatlink ${_fatlink_clang_link})
  else()
    set(CMAKE_${_fatlink_language}_USING_LINKER_fatlink ${_fatlink_gcc_link})
  endif()
endforeach()

# Has these targets compiled for device LTO and linked by fatlink. It works beside target_link_libraries with and without keywords,
# which cannot be mixed.
function(fatlink_target)
  foreach(target IN LISTS ARGN)
    if(NOT TARGET ${target})
      message(FATAL_ERROR "fatlink_target: there is no target ${target}")
    endif()
    # With CUDA_SEPARABLE_COMPILATION, CMake would otherwise link the device code ahead of fatlink.
    set_target_properties(${target} PROPERTIES CUDA_RESOLVE_DEVICE_SYMBOLS OFF)
    target_compile_options(${target} PRIVATE "${_fatlink_compile_options}")
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "^(STATIC|OBJECT)_LIBRARY$")
      target_link_options(${target} PRIVATE "${_fatlink_link_options}")
    endif()
  endforeach()
endfunction()

# Has the build of a target fail if its file does not run on all of these GPUs with all of these drivers:
#
#   fatlink_require(app GPUS sm_75..sm_90 rtx5090 DRIVERS 535 580 [NO_JIT] [KERNELS any] [CLAIMS claims.toml])
#
# Whatever linked it. The words are those of `offload-bundle check`; the call belongs to the directory that defines the target.
function(fatlink_require target)
  cmake_parse_arguments(PARSE_ARGV 1 required "NO_JIT" "KERNELS;CLAIMS" "GPUS;DRIVERS")
  if(NOT TARGET ${target})
    message(FATAL_ERROR "fatlink_require: there is no target ${target}")
  endif()
  if(required_UNPARSED_ARGUMENTS OR NOT (required_GPUS OR required_CLAIMS))
    message(FATAL_ERROR "fatlink_require: expected fatlink_require(${target} GPUS <gpu>... DRIVERS <driver>...), got '${ARGN}'")
  endif()
  set(options)
  foreach(word gpus driver)
    set(values "${required_GPUS}")
    if(word STREQUAL "driver")
      set(values "${required_DRIVERS}")
    endif()
    string(REPLACE ";" "," values "${values}")
    if(values)
      list(APPEND options "--${word}=${values}")
    endif()
  endforeach()
  if(required_NO_JIT)
    list(APPEND options --no-jit)
  endif()
  if(required_KERNELS)
    list(APPEND options "--kernels=${required_KERNELS}")
  endif()
  if(required_CLAIMS)
    get_filename_component(claims "${required_CLAIMS}" ABSOLUTE)
    list(APPEND options "--claims=${claims}")
  endif()
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND fatlink::offload-bundle check "$<TARGET_FILE:${target}>" ${options}
    COMMENT "Checking where ${target} runs"
    VERBATIM)
endfunction()
