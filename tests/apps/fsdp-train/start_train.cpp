// run_train by starting the program.
#include "apps/fsdp-train/train_program.h"

Ending run_train(const std::string& arguments) { return run_command(FSDP_TRAIN_PROGRAM " " + arguments); }
