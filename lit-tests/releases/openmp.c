// One unit of two, for every release of clang. The target region of the first calls a function of the second. For GPUs it is bare: such a kernel
// needs no device runtime.
#pragma omp begin declare target
int other(int x);
#pragma omp end declare target

#ifdef SECOND
#pragma omp begin declare target
int variable = 5;
int other(int x) { return 3 * x + variable; }
#pragma omp end declare target
#else
int printf(const char *, ...);
int main(void) {
  int value = 2;
#ifdef BARE
#pragma omp target teams ompx_bare num_teams(1) thread_limit(1) map(tofrom : value)
#else
#pragma omp target map(tofrom : value)
#endif
  value = other(value);
  printf("value %d\n", value);
}
#endif
