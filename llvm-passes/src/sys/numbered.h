// The order of globals by which the reference graph and the mover identify them.

#pragma once

#include "llvm/IR/Module.h"

#include <vector>

namespace fatlink {

// Functions, then variables, in the module's order. A worker process finds a global again by its index in this list.
inline std::vector<llvm::GlobalValue *> numberedGlobals(llvm::Module &module) {
  std::vector<llvm::GlobalValue *> all;
  for (llvm::Function &function : module)
    all.push_back(&function);
  for (llvm::GlobalVariable &variable : module.globals())
    all.push_back(&variable);
  return all;
}

} // namespace fatlink
