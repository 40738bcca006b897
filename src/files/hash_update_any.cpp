// Other processors than x86-64.
#include "files/hash_update.h"

namespace fsdp::files {

HashUpdate fastest_hash_update() { return update_hash; }

}  // namespace fsdp::files
