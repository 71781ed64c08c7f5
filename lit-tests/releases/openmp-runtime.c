// Replaces libomptarget where no GPU is needed: prints what the program registers with it, and what it launches.
#include <stdio.h>
#include <string.h>

// Before clang 21, and since: the latter begins with eight zeros.
struct former { void *address; const char *name; long size; int flags, data; };
struct current { long zero; short version, kind; int flags; void *address; const char *name; long size, data; void *aux; };
struct image { const char *start, *end; void *begin_entries, *end_entries; };
struct descriptor { int count; struct image *images; char *begin, *end; };

static const struct descriptor *registered;

static const char *next(char **entry, void **address) {
  struct former *former = (struct former *)*entry;
  struct current *current = (struct current *)*entry;
  int is_former = former->address != 0;
  *address = is_former ? former->address : current->address;
  *entry += is_former ? sizeof *former : sizeof *current;
  return is_former ? former->name : current->name;
}

void __tgt_register_lib(const struct descriptor *descriptor) {
  void *address;
  registered = descriptor;
  for (int i = 0; i < descriptor->count; i++)
    printf("image %d is %s\n", i, memcmp(descriptor->images[i].start, "\177ELF", 4) ? "unknown" : "ELF");
  for (char *entry = descriptor->begin; entry < descriptor->end;)
    printf("entry %s\n", next(&entry, &address));
}
void __tgt_unregister_lib(const struct descriptor *descriptor) {}
void __tgt_register_requires(long flags) {}

int __tgt_target_kernel(void *location, long device, int teams, int threads, void *host, void *arguments) {
  void *address;
  for (char *entry = registered->begin; entry < registered->end;) {
    const char *name = next(&entry, &address);
    if (address == host)
      return !printf("launch of %s\n", name);
  }
  return puts("launch of an unknown kernel");
}
