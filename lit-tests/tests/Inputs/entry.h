// ENTRY(symbol, bytes, flags): what clang writes for each kernel (0 bytes) and variable that the host registers.
struct entry { long reserved; short version, kind; int flags; void *address; const char *name; long size, data; void *aux; };
#define ENTRY(symbol, bytes, flags) \
  __attribute__((weak, section("llvm_offload_entries"))) \
  struct entry entry_##symbol asm(".offloading.entry." #symbol) = {0, 1, 2, flags, &symbol, #symbol, bytes, 16, &symbol};
