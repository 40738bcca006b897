// Standard input, output and error, of which a parent may have closed some.
#pragma once

namespace fsdp::files {

// Opens /dev/null as each of descriptors 0, 1 and 2 that is closed: 0 to read, 1 and 2 to write. A file that is opened
// later would get such a number, and the process would print into it. To be called before the process opens a file.
// Makes system calls only.
void open_standard_streams();

}  // namespace fsdp::files
