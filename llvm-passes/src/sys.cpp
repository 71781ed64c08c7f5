// What LLVM-C has no call for.

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

// LLVMParseCommandLineOptions sends LLVM's complaints to nowhere and does not say whether there were any.
extern "C" bool fatlink_parse_llvm_options(int count, const char *const *words) {
  return llvm::cl::ParseCommandLineOptions(count, words, "", &llvm::errs());
}
