// Does not compile: a module holder where units_of takes a module's class.
#include <fsdp/options.h>

struct BlockImpl : torch::nn::Module {};
TORCH_MODULE(Block);

fsdp::UnitPolicy policy() { return fsdp::units_of<Block>(); }
