# Where fatlink is installed: its prefix, and the folders for the -B options of clang and gcc.
#
# An archive has them in its root. Where the prefix is shared with other software, they are in lib/fatlink.

get_filename_component(_fatlink_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(IS_DIRECTORY "${_fatlink_prefix}/lib/fatlink")
  set(_fatlink_clang_folder "${_fatlink_prefix}/lib/fatlink/bin")
  set(_fatlink_gcc_folder "${_fatlink_prefix}/lib/fatlink/gcc")
else()
  set(_fatlink_clang_folder "${_fatlink_prefix}/bin")
  set(_fatlink_gcc_folder "${_fatlink_prefix}/gcc")
endif()
