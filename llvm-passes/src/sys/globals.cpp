// What LLVM-C does not offer for global variables. Declared in globals.rs.

#include "declared_size.h"

#include "llvm-c/Core.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/Module.h"

using namespace llvm;

// Keeps sanitizers from adding red zones or tags to a variable whose layout others read.
extern "C" void fatlink_exclude_from_sanitizers(LLVMValueRef raw) {
  GlobalVariable *variable = unwrap<GlobalVariable>(raw);
  GlobalValue::SanitizerMetadata metadata;
  if (variable->hasSanitizerMetadata())
    metadata = variable->getSanitizerMetadata();
  metadata.NoAddress = true;
  metadata.NoHWAddress = true;
  variable->setSanitizerMetadata(metadata);
}

extern "C" uint64_t fatlink_declared_size(LLVMValueRef variable) {
  return fatlink::declaredSize(*unwrap<GlobalVariable>(variable));
}

// NVPTX's printer emits what a variable refers to before it, in the order of addresses in memory: another one in every process for these
// lists. Behind all other variables, everything in them has been emitted.
extern "C" void fatlink_move_used_last(LLVMModuleRef raw) {
  Module *module = unwrap(raw);
  for (const char *name : {"llvm.used", "llvm.compiler.used"})
    if (GlobalVariable *list = module->getNamedGlobal(name)) {
      module->removeGlobalVariable(list);
      module->insertGlobalVariable(list);
    }
}
