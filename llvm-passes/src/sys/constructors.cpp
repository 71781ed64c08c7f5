// The static constructors of code generators that most links do not need, which build.rs moved out of .init_array. Declared in
// constructors.rs.

using Constructor = void (*)();

// Weak: these sections do not exist in a program that is linked without the code generator's library.
#define SECTION(NAME) extern "C" [[gnu::weak]] Constructor __start_##NAME[], __stop_##NAME[]
SECTION(fatlink_amdgpu_init);
SECTION(fatlink_aarch64_init);
#undef SECTION

static void run(Constructor *first, Constructor *last) {
  for (Constructor *each = first; each != last; ++each)
    (*each)();
}

extern "C" void fatlink_construct_amdgpu() { run(__start_fatlink_amdgpu_init, __stop_fatlink_amdgpu_init); }

extern "C" void fatlink_construct_aarch64() { run(__start_fatlink_aarch64_init, __stop_fatlink_aarch64_init); }
