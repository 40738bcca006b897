// Saving and loading: the state of a training run, and plain Hugging Face files.
#pragma once

#include <ATen/core/Generator.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fsdp/movable.h"
#include "fsdp/optim.h"
#include "fsdp/sharded_model.h"

namespace fsdp {

namespace checkpoint {
class SaveUnderWay;
}

// The parts of a checkpoint; the model is required.
struct Checkpoint {
  ShardedModel* model = nullptr;
  Optimizer* optimizer = nullptr;
  int64_t step = 0;  // steps done so far
  // Small texts to keep with it, by name: what else a loop needs to go on where it was. Rank 0's are saved; to read
  // them, `checkpoint_notes`.
  std::map<std::string, std::string> notes = {};
  // Generators of random numbers that the loop draws from, by names that are the same on every rank, such as {"cpu",
  // at::detail::getDefaultCPUGenerator()}. Each rank's state is saved, and a load on as many ranks sets it. On another
  // number of ranks a load seeds each anew, by what was saved and the rank, the same each time. A loop that calls
  // `seed_micro_batch` (fsdp/random.h) needs none of this, and draws the same on any number of ranks.
  std::map<std::string, at::Generator> generators = {};
};

// Writes `directory`: every rank its own pieces as safetensors, and one manifest (docs/checkpoint_format.md). Every
// byte is covered by a hash, of 1 MiB of a tensor at most. It is written beside the target and renamed when it is
// complete, so that no partial checkpoint is ever seen. An older checkpoint, or an empty directory, is replaced;
// anything else that lies there stays, and is an error. A collective. Throws `Error` on every rank when one of them
// cannot write, or when another job is saving to the same place.
void save_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint);

// A save that goes on beside training, as `save_checkpoint_async` returns it. A cheap handle: copies are of one save.
// It owns nothing: dropping it neither waits nor gives up the save. Any thread may call it, also when the model is
// gone.
class PendingCheckpoint {
 public:
  PendingCheckpoint() = default;  // of no save: done
  explicit PendingCheckpoint(std::shared_ptr<checkpoint::SaveUnderWay> save);

  // Returns when the checkpoint is committed, on this rank and so on all. Throws the `Error` that save_checkpoint would
  // have thrown, every time; nothing is left then. No collective, but it waits for the saves of the other ranks.
  void wait() const;
  // Whether `wait` has nothing to wait for: it is committed, or failed. Never waits.
  bool done() const;
  // For how long it has kept this rank's training waiting so far: in the call, an older save that it waited for
  // included, and where a change of the state waited for the copy.
  double seconds_paused() const;
  // From the call to the commit; so far, where it is not over.
  double seconds() const;

 private:
  detail::Movable<"PendingCheckpoint", std::shared_ptr<checkpoint::SaveUnderWay>> save_;
};

// As `save_checkpoint`, with the same files to the byte, but it returns at once: a thread of each rank copies, writes
// and commits, while training goes on. What is written is the state at this call. Nothing else may be changed for that:
// the next step, load or other write of the parameters or of an optimizer's state waits until the copy is made, which
// usually is long before. Copied in the call itself: the module's buffers, state on a GPU, and that of an `Optimizer`
// which is none of this library's; tensors of such a state(), and of one that was taken before, are the caller's.
//
// Memory: a copy of this rank's part, 12 bytes per parameter and shard with AdamW's moments in fp32, kept until the
// model ends (MemoryReport::save_copy_bytes). Where the state lies in files (Options::offload_directory), or the host
// has no memory for the copy, there is none, and the next write waits until this rank's file is written.
//
// A model has one such save at a time: another one, a save_checkpoint or a load_checkpoint waits for it first. So does
// the end of the model (of its ShardedModel and optimizers), that of the rank's function in `launch`, and exit(): a
// process ends after the commit. What goes wrong with a save is thrown by `wait`; where nobody has called it by the
// next of these, rank 0 writes it to standard error.
//
// A collective. The first call of a model makes connections of its own between the ranks. Throws `Error` for what
// cannot be saved at this place in the program; all else, a full disk or a rank that is gone, is thrown by `wait`.
PendingCheckpoint save_checkpoint_async(const std::filesystem::path& directory, const Checkpoint& checkpoint);

// In what a checkpoint and what it is loaded into differ. States of an optimizer are called as in the files,
// "optimizer.exp_avg.NAME", buffers "buffer.NAME".
struct LoadDifferences {
  // Not in the checkpoint: parameters and buffers keep their values, or get their first ones where they are deferred;
  // states, those of such parameters as well, are zero, as those of a new optimizer; generators ("generator.NAME") keep
  // theirs.
  std::vector<std::string> missing = {};
  std::vector<std::string> extra = {};  // in the checkpoint alone: passed over
  // Parameters whose first dimension has grown: the rows that are there are loaded, with their states and the
  // parameter's step count. The others keep their values, and their states are zero.
  std::vector<std::string> grown = {};
  // Parameters that have another floating dtype here, and states that are kept otherwise (StateDtype): converted.
  std::vector<std::string> converted = {};
  // After load_pretrained: parameters of PretrainedOptions::first_rows that have more rows in the files.
  std::vector<std::string> cut = {};
};

struct LoadOptions {
  // Every difference is an error, as in PyTorch's load_state_dict. Off: what fits is loaded, and `differences` says
  // what was not; other shapes and strides remain errors.
  bool strict = true;
  LoadDifferences* differences = nullptr;  // filled on every rank, with the same; needed where strict is off
};

// Fills the model, and the optimizer when there is one, and returns the step. A collective, on any number of ranks,
// with any strategy, shard groups, units and dtypes: each rank reads the parts of the files that it holds itself, and
// checks their hashes in several threads. State of an optimizer that is not given is passed over, and so is that of
// parameters which are frozen here. Takes no memory but for what is to be converted or goes to a GPU: what has the
// dtype that it has here is read and checked without being kept, and read again where it belongs. Where nothing can be
// lost it is read once: into parameters without values (Options::initialise), and into the state of this library's
// optimizers before their first step, while it is all zeros.
//
// Throws `Error`, with nothing changed on any rank: for a checkpoint of another model, optimizer or `state_dtype`, with
// all that differs; for one of whose bytes one bit is not as it was saved, with the file and the tensor; for options
// with strict off and no `differences`. It also works after a step in a backward that broke off
// (`PieceOptimizer::step_in_backward`); the gradients of that step are gone then. Other gradients stay: call
// `zero_grad` after a backward that threw. Where files are changed between the two reads, or cannot be read any more,
// it throws `Error`, too, and until another load has succeeded, so does every use of the model; the optimizer's state
// is then as before its first step.
int64_t load_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint,
                        const LoadOptions& options = {});

// The notes that were saved with a checkpoint; no collective. Throws `Error` for what is no checkpoint.
std::map<std::string, std::string> checkpoint_notes(const std::filesystem::path& directory);

// The complete checkpoint of the highest step directly under `directory`, if there is one: its manifest is whole, and
// its files have the sizes and headers that were saved. The bytes of tensors are compared when it is loaded. No
// collective.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory);

struct LoadedCheckpoint {
  std::filesystem::path directory;
  int64_t step = 0;  // steps done
  // Why newer ones were not loaded, a sentence each, the newest first: one whose disk lost a byte, for example.
  std::vector<std::string> passed_over = {};
};

// Loads the newest checkpoint directly under `directory` that can be loaded, as `load_checkpoint` does; none where
// there is no checkpoint. Rank 0 looks for them, and all take the same. A collective. Throws `Error` where there are
// some and none can be loaded, with the reason of each.
//
//   int64_t step = 0;
//   if (const auto loaded = fsdp::load_latest_checkpoint("run", state)) step = loaded->step;
std::optional<LoadedCheckpoint> load_latest_checkpoint(const std::filesystem::path& directory,
                                                       const Checkpoint& checkpoint, const LoadOptions& options = {});

// How a model's parameters and buffers are called and lie in Hugging Face files, where that differs from the model.
struct PretrainedOptions {
  // The name in the files of what the model calls `name`; none: the same. The same on every rank.
  std::function<std::string(const std::string& name)> name_in_file = nullptr;
  std::string optional_prefix = {};  // of names in the files: those of a file may all, or in part, lack it
  // Patterns (* and ?) of the model's names: matrices that are transposed in the files.
  std::vector<std::string> transposed = {};
  // Patterns of names in the files: passed over where the model has nothing of that name.
  std::vector<std::string> ignored = {};
  // Patterns of the model's names that the files do not have: loading leaves them as they are, saving leaves them out.
  std::vector<std::string> absent = {};
  // Saving: the values to write in place of the parameter `name`, of its shape; undefined: its own. `whole` gives any
  // parameter of the unit that `name` is in, whole and in fp32, to be read. Rank 0 calls it, for each parameter.
  using Whole = std::function<torch::Tensor(const std::string& name)>;
  std::function<torch::Tensor(const std::string& name, const Whole& whole)> written = nullptr;
  // Loading, as in LoadOptions: off, parameters and buffers that the files do not have are left as they are, names that
  // the model does not have are passed over, and of a parameter that has grown its first rows are loaded. Dtypes are
  // converted in any case, and are no difference.
  bool strict = true;
  LoadDifferences* differences = nullptr;  // filled on every rank, with the same; needed where strict is off
  // Loading: patterns of the model's names. Such a parameter may have more rows in the files: its first ones are
  // loaded, with strict on, too. For a table of positions in a model with a shorter context.
  std::vector<std::string> first_rows = {};
};

// Fills the parameters and buffers from `path`: a folder with model.safetensors, or with model.safetensors.index.json
// and the files that it names; or one of these files. fp64, fp32, fp16 and bf16 are converted to the model's dtypes,
// and whole numbers to a buffer's floating one, which a module has that was converted as a whole; an optimizer keeps
// its state. Each rank reads its own part, and holds it a second time until all is read, but for shards that lie in
// files. A collective. Throws `Error`, with nothing changed, with all that differs: names that are missing or left
// over, shapes and dtypes; and for a file that is damaged. Where a file for such shards cannot be read any more when it
// is their turn, it throws `Error`, too, and so does every use of the model until another load has succeeded.
void load_pretrained(const std::filesystem::path& path, ShardedModel& model, const PretrainedOptions& options = {});

// Writes the parameters, whole and in fp32, and rank 0's buffers to `directory`/model.safetensors, which
// `load_pretrained`, and transformers with a config.json beside it, read. The directory is made where there is none;
// the file appears whole, in place of an older one. Rank 0 holds and writes one unit at a time. A collective. Throws
// `Error` on every rank when rank 0 cannot write.
void save_pretrained(const std::filesystem::path& directory, ShardedModel& model,
                     const PretrainedOptions& options = {});

}  // namespace fsdp
