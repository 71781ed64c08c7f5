// What LLVM-C has no call for.

#include "llvm-c/Core.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

// LLVMParseCommandLineOptions sends LLVM's complaints to nowhere and does not say whether there were any.
extern "C" bool fatlink_parse_llvm_options(int count, const char *const *words) {
  return llvm::cl::ParseCommandLineOptions(count, words, "", &llvm::errs());
}

// 0: none, 1: lines alone, 2: full.
extern "C" int fatlink_debug_information(LLVMModuleRef module) {
  int found = 0;
  for (llvm::DICompileUnit *unit : llvm::unwrap(module)->debug_compile_units()) {
    if (unit->getEmissionKind() == llvm::DICompileUnit::FullDebug)
      return 2;
    found = 1;
  }
  return found;
}

// LLVMAddModuleFlag can only add a second flag of that name.
extern "C" void fatlink_set_module_flag(LLVMModuleRef module, const char *name, size_t length, uint32_t value) {
  llvm::Module *found = llvm::unwrap(module);
  llvm::Type *type = llvm::Type::getInt32Ty(found->getContext());
  llvm::Metadata *number = llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(type, value));
  found->setModuleFlag(llvm::Module::Override, llvm::StringRef(name, length), number);
}
