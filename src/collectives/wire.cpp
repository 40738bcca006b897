#include "collectives/wire.h"

namespace fsdp::collectives {

void wait_all(Messages& messages) {
  for (auto& message : messages) message->wait();
  messages.clear();
}

std::vector<int> Wire::peers() const {
  std::vector<int> peers;
  for (int i = 1; i < size(); ++i) peers.push_back((rank() + i) % size());
  return peers;
}

}  // namespace fsdp::collectives
