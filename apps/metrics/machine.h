// Facts of this machine and process, as the kernel tells them.
#pragma once

#include <string>
#include <vector>

#include "metrics/process_record.h"

namespace trainer {

// Sets host, process, processor, cores, total_memory, folder, command and time. Unknown fields stay empty.
void add_machine(ProcessStart& start);

// Processors that this process may run on.
int64_t usable_cores();

// Now, as "2026-11-23T03:01:02Z".
std::string utc_time();

}  // namespace trainer
