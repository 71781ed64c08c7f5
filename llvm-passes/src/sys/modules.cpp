// Queries and changes of whole modules that LLVM-C does not offer. Declared in modules.rs.

#include "llvm-c/Core.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

using namespace llvm;

// LLVM-C can open a module without its function bodies, but not load them later. Returns a message for LLVMDisposeMessage, or
// null on success.
extern "C" char *fatlink_load_bodies(LLVMModuleRef module) {
  Error error = unwrap(module)->materializeAll();
  return error ? LLVMCreateMessage(toString(std::move(error)).c_str()) : nullptr;
}

// Returns 0 for none, 1 for lines alone, 2 for full debug information.
extern "C" int fatlink_debug_information(LLVMModuleRef module) {
  int found = 0;
  for (DICompileUnit *unit : unwrap(module)->debug_compile_units()) {
    if (unit->getEmissionKind() == DICompileUnit::FullDebug)
      return 2;
    found = 1;
  }
  return found;
}

// LLVMAddModuleFlag would add a second flag of that name.
extern "C" void fatlink_set_module_flag(LLVMModuleRef raw, const char *name, size_t length, uint32_t value) {
  Module &module = *unwrap(raw);
  Metadata *number = ConstantAsMetadata::get(ConstantInt::get(Type::getInt32Ty(module.getContext()), value));
  module.setModuleFlag(Module::Override, StringRef(name, length), number);
}
