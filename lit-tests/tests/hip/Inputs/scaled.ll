; _Z6scaledi(int), as a library that ld.lld links defines it.
define i32 @_Z6scaledi(i32 %value) {
  %result = add i32 %value, 1
  ret i32 %result
}
