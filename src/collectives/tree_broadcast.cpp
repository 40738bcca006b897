#include "collectives/tree_broadcast.h"

#include "collectives/tags.h"

namespace fsdp::collectives {

namespace {

// The distance from a rank to its first child, where `place` is the distance from the source to the rank. Each further
// child is twice as far. The rank's parent is at half of it, in the other direction.
int first_step(int place) {
  int step = 1;
  while (step <= place) step *= 2;
  return step;
}

}  // namespace

void broadcast_in_a_tree(Transport& transport, const torch::Tensor& tensor, int source) {
  const int size = transport.size();
  const int place = (transport.rank() - source + size) % size;
  const auto rank_at = [&](int other) { return (source + other) % size; };
  const bool answers = tensor.nbytes() > kMostWithoutAnswers;
  const char answer = 1;
  char answered = 0;
  Messages messages;  // destroyed before their memory
  int step = first_step(place);
  if (place > 0) {
    const int parent = place - step / 2;
    messages.push_back(transport.receive(tensor.mutable_data_ptr(), tensor.nbytes(), rank_at(parent), kBroadcastTag));
    transport.wait_all(messages);
    const bool is_last_child = parent + step >= size;
    if (answers && !is_last_child) messages.push_back(transport.send(&answer, 1, rank_at(parent), kAnswerTag));
  }
  for (; place + step < size; step *= 2) {
    const int child = rank_at(place + step);
    const bool is_last_child = place + 2 * step >= size;
    if (answers && !is_last_child) messages.push_back(transport.receive(&answered, 1, child, kAnswerTag));
    messages.push_back(transport.send(tensor.const_data_ptr(), tensor.nbytes(), child, kBroadcastTag));
    if (answers) transport.wait_all(messages);
  }
  transport.wait_all(messages);
}

}  // namespace fsdp::collectives
