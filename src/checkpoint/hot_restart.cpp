// State that a rank leaves in memory, and how the rank in its place takes it over.
#include "fsdp/hot_restart.h"

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "checkpoint/fill.h"
#include "checkpoint/generators.h"
#include "checkpoint/held_table.h"
#include "engine/model.h"
#include "interpose/piece_storage.h"

namespace fsdp {

namespace {

using checkpoint::Contents;
using checkpoint::HeldNumbers;
using checkpoint::HeldPlaces;
using memory::HeldRank;

engine::Model& model_of(const Checkpoint& checkpoint, const char* call) {
  FSDP_CHECK(checkpoint.model != nullptr, "{}: the model is missing; set .model = &sharded", call);
  return checkpoint.model->model();
}

std::string name_of(const Contents::Piece& piece, const engine::Model& model) {
  return piece.kind + "." + model.parameters()[piece.parameter].name;
}

HeldPlaces places_of(const Contents& contents, const engine::Model& model, const HeldRank& held) {
  const HeldRank::Places found(held);
  HeldPlaces places;
  for (const Contents::Piece& piece : contents.pieces) {
    if (piece.tensor.numel() == 0) continue;
    const auto place = found.of(piece.tensor.const_data_ptr(), piece.tensor.nbytes());
    FSDP_CHECK(
        place,
        "hot_checkpoint: {} does not lie in the memory that the launcher holds. Give it a model that was sharded "
        "in this job, and an optimizer of this library's.",
        name_of(piece, model));
    places.pieces.push_back(
        {name_of(piece, model), checkpoint::dtype_name(piece.tensor.scalar_type()), piece.tensor.numel(), *place});
  }
  for (const Contents::Piece& scalar : contents.scalars) places.scalars.push_back(name_of(scalar, model));
  return places;
}

std::vector<uint8_t> bytes_of(const torch::Tensor& tensor) {
  const torch::Tensor bytes = tensor.cpu().contiguous();
  const auto* begin = static_cast<const uint8_t*>(bytes.const_data_ptr());
  return {begin, begin + bytes.nbytes()};
}

HeldNumbers numbers_of(const Contents& contents, const Checkpoint& checkpoint, engine::Model& model) {
  HeldNumbers numbers{.scalars = {}, .notes = checkpoint.notes, .buffers = {}, .generators = {}};
  for (const Contents::Piece& scalar : contents.scalars) numbers.scalars.push_back(scalar.tensor.item<double>());
  for (const auto& [name, state] : checkpoint::states_of(checkpoint.generators)) {
    numbers.generators[name] = bytes_of(state);
  }
  if (model.group().rank() != 0) return numbers;
  for (const auto& [name, buffer] : model.buffers()) numbers.buffers[name] = bytes_of(buffer);
  return numbers;
}

std::vector<const void*> addresses_of(const Contents& contents) {
  std::vector<const void*> addresses;
  for (const Contents::Piece& piece : contents.pieces) addresses.push_back(piece.tensor.const_data_ptr());
  return addresses;
}

void commit(const Contents& contents, const Checkpoint& checkpoint, engine::Model& model, HeldRank& held) {
  std::vector<const void*> addresses = addresses_of(contents);
  if (!held.knows(addresses)) {
    held.set_places(checkpoint::encode(places_of(contents, model, held)), std::move(addresses));
  }
  held.commit(checkpoint.step, checkpoint::encode(numbers_of(contents, checkpoint, model)));
}

// Compares the tensors that a rank left, by name, with their successors. Throws Error where they differ.
void check_same(const HeldPlaces& left, const Contents& contents, const engine::Model& model) {
  std::map<std::string, const HeldPlaces::Piece*> pieces;
  for (const HeldPlaces::Piece& piece : left.pieces) pieces.emplace(piece.name, &piece);
  size_t found = 0;
  for (const Contents::Piece& piece : contents.pieces) {
    if (piece.tensor.numel() == 0) continue;
    const std::string name = name_of(piece, model);
    const auto before = pieces.find(name);
    const bool is_same = before != pieces.end() && before->second->numel == piece.tensor.numel() &&
                         before->second->dtype == checkpoint::dtype_name(piece.tensor.scalar_type());
    FSDP_CHECK(is_same,
               "resume_hot: found {} of {} elements, expected the model and the optimizer that this rank had before it "
               "was started again. Make them in the same way each time.",
               name, piece.tensor.numel());
    ++found;
  }
  FSDP_CHECK(found == left.pieces.size() && contents.scalars.size() == left.scalars.size(),
             "resume_hot: found {} tensors, expected the {} that this rank had before it was started again. Make the "
             "model and the optimizer in the same way each time.",
             found, left.pieces.size());
}

void copy_pieces(const HeldPlaces& left, const Contents& contents, const engine::Model& model, const HeldRank& held) {
  std::map<std::string, const HeldPlaces::Piece*> pieces;
  for (const HeldPlaces::Piece& piece : left.pieces) pieces.emplace(piece.name, &piece);
  for (const Contents::Piece& piece : contents.pieces) {
    if (piece.tensor.numel() == 0) continue;
    torch::Tensor target = piece.tensor;
    held.read_left(pieces.at(name_of(piece, model))->place, target.nbytes(), [&](const void* bytes) {
      target.copy_(torch::from_blob(const_cast<void*>(bytes), target.sizes(), target.options()));
    });
  }
}

void set_scalars(const HeldNumbers& left, const Contents& contents) {
  for (size_t i = 0; i < contents.scalars.size(); ++i) {
    torch::Tensor(contents.scalars[i].tensor).fill_(left.scalars[i]);
  }
}

// Rank 0's; the others left none.
void copy_buffers(const HeldNumbers& left, const engine::Model& model) {
  for (const auto& [name, buffer] : model.buffers()) {
    const auto bytes = left.buffers.find(name);
    if (bytes == left.buffers.end()) continue;
    const torch::Tensor values = torch::empty(buffer.sizes(), buffer.options().device(torch::kCPU));
    FSDP_INVARIANT(values.nbytes() == bytes->second.size(), "buffer {} has another size than before", name);
    std::memcpy(values.mutable_data_ptr(), bytes->second.data(), bytes->second.size());
    engine::copy_values(buffer, values);
  }
}

// One that did not belong to the state before keeps its own.
void set_generators(const HeldNumbers& left, const Checkpoint& checkpoint, int rank) {
  for (const auto& [name, generator] : checkpoint.generators) {
    const auto bytes = left.generators.find(name);
    if (bytes == left.generators.end()) continue;
    const torch::Tensor state = torch::tensor(c10::ArrayRef<uint8_t>(bytes->second), torch::kByte);
    checkpoint::set_state(generator, state, rank, /*is_own=*/true);
  }
}

}  // namespace

void hot_checkpoint(const Checkpoint& checkpoint) {
  engine::Model& model = model_of(checkpoint, "hot_checkpoint");
  HeldRank* const held = model.held_memory();
  if (held == nullptr) return;
  FSDP_CHECK(checkpoint.step >= 0 && checkpoint.step <= checkpoint::kHighestStep,
             "hot_checkpoint: found step {}, expected a number from 0 to 2^53", checkpoint.step);
  model.check(schedule::Call::ReadState, "hot_checkpoint");
  model.publish_pieces();  // what operators write to pieces from now on is a change
  const torch::NoGradGuard no_grad;
  const interpose::Unwatched ours;
  commit(checkpoint::contents_of(checkpoint), checkpoint, model, *held);
}

std::optional<HotState> resume_hot(const Checkpoint& checkpoint) {
  engine::Model& model = model_of(checkpoint, "resume_hot");
  HeldRank* const held = model.held_memory();
  const auto left = held == nullptr ? std::nullopt : held->left();
  if (!left) return std::nullopt;
  const torch::NoGradGuard no_grad;
  const interpose::Unwatched ours;
  collectives::Group& group = model.group();
  Contents contents;
  HeldPlaces places;
  const HeldNumbers numbers = checkpoint::decode_numbers(left->numbers);
  checkpoint::all_succeed(group, "resume_hot", [&] {
    contents = checkpoint::contents_of(checkpoint);
    places = checkpoint::decode_places(left->places);
    check_same(places, contents, model);
    checkpoint::states_of(checkpoint.generators);  // all are defined
  });
  const auto take_over = [&] {
    copy_pieces(places, contents, model, *held);
    set_scalars(numbers, contents);
    copy_buffers(numbers, model);
  };
  const std::vector<bool> all(model.parameters().size(), true);
  checkpoint::fill(model, {.call = schedule::Call::LoadCheckpoint,
                           .what = "resume_hot",
                           .there = all,
                           .whole = all,
                           .write = take_over,
                           .break_off = {}});
  model.broadcast_buffers(0);
  set_generators(numbers, checkpoint, group.rank());
  Checkpoint taken_over = checkpoint;
  taken_over.step = left->step;
  taken_over.notes = numbers.notes;
  commit(contents, taken_over, model, *held);
  group.barrier();  // a rank's shard may lie in a file of another
  held->drop_left();
  return HotState{left->step, numbers.notes};
}

}  // namespace fsdp
