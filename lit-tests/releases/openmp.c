// One unit of two, for every release of clang. The target region of the first calls a function of the second.
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
#pragma omp target map(tofrom : value)
  value = other(value);
  printf("value %d\n", value);
}
#endif
