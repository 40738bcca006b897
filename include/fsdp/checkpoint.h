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

#include "fsdp/mesh.h"
#include "fsdp/movable.h"
#include "fsdp/optim.h"
#include "fsdp/sharded_model.h"

namespace fsdp {

namespace checkpoint {
class SaveUnderWay;
}

// The parts of a checkpoint; the model is required.
struct Checkpoint {
  ShardedModel* model = nullptr;   // required
  Optimizer* optimizer = nullptr;  // null: no optimizer state
  int64_t step = 0;                // steps done so far
  // Small texts to save with the checkpoint, by name, for example the loop's position in its data. Rank 0's notes are
  // saved. `checkpoint_notes` reads them.
  std::map<std::string, std::string> notes = {};
  // Random number generators that the loop uses, by names that are the same on every rank, such as {"cpu",
  // at::detail::getDefaultCPUGenerator()}. Each rank's state is saved. A load on the same number of ranks restores it.
  // A load on another number seeds each generator anew, always the same for the same checkpoint and rank. A loop that
  // calls `seed_micro_batch` (fsdp/random.h) does not need this, and draws the same numbers on any number of ranks.
  std::map<std::string, at::Generator> generators = {};
  // The mesh that the model is a part of: its other ranks hold other stages of a pipeline, or other parts of divided
  // layers. All ranks of the mesh then save and load together, each with its own model and optimizer, and "rank 0" is
  // rank 0 of mesh.world(). The model was sharded along an axis, mesh["data"] for example, maybe one of size 1. Without
  // a mesh the model's own ranks save and load, and hold the whole model.
  std::optional<Mesh> mesh = std::nullopt;
};

// Writes `directory`: each rank writes its own pieces as safetensors, and one manifest describes them
// (docs/checkpoint_format.md). Every byte is covered by a hash of at most 1 MiB of a tensor. The files are written
// beside the target and renamed when complete, so that no reader sees a partial checkpoint. An older checkpoint, or an
// empty directory, is replaced. Anything else at that path stays, and is an error. A collective. Throws `Error` on
// every rank if one of them cannot write, or if another job is saving to the same path.
void save_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint);

// A save that runs beside training, returned by `save_checkpoint_async`. A cheap handle: all copies refer to one save.
// Dropping it neither waits for the save nor cancels it. Any thread may use it, also after the model's end.
class PendingCheckpoint {
 public:
  PendingCheckpoint() = default;  // without a save: done
  // For the rest of the library: `save_checkpoint_async` makes it.
  explicit PendingCheckpoint(std::shared_ptr<checkpoint::SaveUnderWay> save);

  // Returns when the checkpoint is committed, on all ranks. If the save failed, every call throws the `Error` that
  // save_checkpoint would have thrown, and no files are left. Not a collective, but it waits for the saves of the other
  // ranks.
  void wait() const;
  // True if the save is committed or has failed, so that `wait` returns at once. Never waits.
  bool done() const;
  // How long the save has blocked this rank's training so far: in the call itself, with its wait for an older save, and
  // when a change of the state waited for the copy.
  double seconds_paused() const;
  // Seconds from the call to the commit, or until now if the save still runs.
  double seconds() const;

 private:
  detail::Movable<"PendingCheckpoint", std::shared_ptr<checkpoint::SaveUnderWay>> save_;
};

// As `save_checkpoint`, with the same files to the byte, but returns at once. A thread of each rank copies, writes and
// commits while training continues. The checkpoint has the state at the time of this call. The next change of that
// state (a step, a load, another write to parameters or optimizer state) waits for the copy, which usually is long
// done. The call itself copies the module's buffers, state on a GPU, and the state of an `Optimizer` class of the user.
// Tensors that a state() call returned belong to the caller: the save does not guard them.
//
// Memory: a copy of this rank's part, kept until the model ends (MemoryReport::save_copy_bytes). With AdamW's moments
// in fp32 it is 12 bytes per parameter and shard. There is no copy if the state lies in files
// (Options::offload_directory) or the host lacks the memory for it. The next write then waits until this rank's file is
// written.
//
// A model has one such save at a time. These wait for it first: another save, a load_checkpoint, the end of the model
// (its ShardedModel and optimizers), the end of the rank's function in `launch`, and exit(). So a process ends after
// the commit. `wait` throws the save's error. If `wait` was not called before the next of these, rank 0 prints the
// error to standard error.
//
// A collective. The first call of a model opens its own connections between the ranks. Throws `Error` for state that
// cannot be saved at this point of the program. `wait` throws all later errors, for example a full disk or a dead rank.
PendingCheckpoint save_checkpoint_async(const std::filesystem::path& directory, const Checkpoint& checkpoint);

// Differences between a checkpoint and the model that loads it. Optimizer states are named as in the files,
// "optimizer.exp_avg.NAME", and buffers "buffer.NAME".
struct LoadDifferences {
  // Not in the checkpoint. Parameters and buffers keep their values; deferred ones get their first values. Optimizer
  // states become zero, as in a new optimizer. Generators ("generator.NAME") keep their state.
  std::vector<std::string> missing = {};
  std::vector<std::string> extra = {};  // in the checkpoint alone: passed over
  // Parameters with more rows than in the checkpoint (first dimension). The saved rows are loaded, with their states
  // and the parameter's step count. The other rows keep their values, and their states are zero.
  std::vector<std::string> grown = {};
  // Parameters with another floating dtype here, and states with another StateDtype: converted.
  std::vector<std::string> converted = {};
  // After load_pretrained: parameters of PretrainedOptions::first_rows that have more rows in the files.
  std::vector<std::string> cut = {};
};

// Options of load_checkpoint.
struct LoadOptions {
  // If true, every difference is an error, as in PyTorch's load_state_dict. If false, matching tensors are loaded and
  // `differences` lists the rest. Other shapes and strides are always errors.
  bool strict = true;
  LoadDifferences* differences = nullptr;  // filled, the same on every rank; required if strict is false
};

// Fills the model, and the optimizer if there is one, and returns the step. A collective. The number of ranks,
// strategy, shard groups, units and dtypes may differ from the save's: each rank reads its own parts of the files, and
// checks their hashes in several threads. Optimizer state is skipped if no optimizer is given, and for parameters that
// are frozen here. Needs extra memory only for values that are converted or copied to a GPU. All others are read twice:
// once to check them, once into place. They are read only once if nothing can be lost: parameters without values
// (Options::initialise), and state of this library's optimizers before their first step.
//
// Throws `Error`, with nothing changed on any rank. For a checkpoint of another model, optimizer or `state_dtype` the
// message lists all differences. For a damaged file it has the file and the tensor. strict = false without
// `differences` is an error, too. If files change between the two reads, or become unreadable, it throws `Error`, and
// every use of the model throws until another load succeeds. The optimizer's state is then as before its first step.
// Loading also works after a broken backward that stepped (`PieceOptimizer::step_in_backward`), and discards the
// gradients of that step. Other gradients stay: call `zero_grad` after a backward that threw.
int64_t load_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint,
                        const LoadOptions& options = {});

// The notes of a saved checkpoint. Not a collective. Throws `Error` if `directory` is no checkpoint.
std::map<std::string, std::string> checkpoint_notes(const std::filesystem::path& directory);

// The complete checkpoint with the highest step directly under `directory`, if there is one. Complete: its manifest is
// whole, and its files have the saved sizes and headers. Tensor bytes are checked when it is loaded. Not a collective.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory);

// The checkpoint that `load_latest_checkpoint` loaded.
struct LoadedCheckpoint {
  std::filesystem::path directory;  // of the checkpoint
  int64_t step = 0;                 // steps done
  // Why newer checkpoints were not loaded, one sentence each, the newest first. For example: damaged bytes.
  std::vector<std::string> passed_over = {};
};

// Loads the newest loadable checkpoint directly under `directory`, as `load_checkpoint` does. Returns nothing if there
// is no checkpoint. Rank 0 chooses it, and all ranks load the same. A collective. Throws `Error` if there are
// checkpoints and none can be loaded, with the reason of each.
//
//   int64_t step = 0;
//   if (const auto loaded = fsdp::load_latest_checkpoint("run", state)) step = loaded->step;
std::optional<LoadedCheckpoint> load_latest_checkpoint(const std::filesystem::path& directory,
                                                       const Checkpoint& checkpoint, const LoadOptions& options = {});

// Differences between the model and its Hugging Face files: names, layouts and missing tensors.
struct PretrainedOptions {
  // Returns the name in the files of the model's `name`. Without it the names are the same. The same on every rank.
  std::function<std::string(const std::string& name)> name_in_file = nullptr;
  std::string optional_prefix = {};  // of names in the files, which may lack it
  // Patterns (* and ?) of the model's names: these matrices are transposed in the files.
  std::vector<std::string> transposed = {};
  // Patterns of names in the files: skipped if the model does not have that name.
  std::vector<std::string> ignored = {};
  // Patterns of the model's names that the files lack: loading leaves them as they are, saving leaves them out.
  std::vector<std::string> absent = {};
  // Returns any parameter of the same unit, whole and in fp32, for reading.
  using Whole = std::function<torch::Tensor(const std::string& name)>;
  // Saving: returns the values to write in place of the parameter `name`, with its shape, or an undefined tensor for
  // the parameter's own. Rank 0 calls this for each parameter.
  std::function<torch::Tensor(const std::string& name, const Whole& whole)> written = nullptr;
  // Loading, as in LoadOptions. If false, parameters and buffers that the files lack stay as they are, and names that
  // the model lacks are skipped. If a parameter has more rows than the file's, the first rows are loaded. Dtypes are
  // always converted, and do not count as differences.
  bool strict = true;
  LoadDifferences* differences = nullptr;  // filled, the same on every rank; required if strict is false
  // Loading: patterns of the model's names. These parameters may have more rows in the files; the first rows are
  // loaded, also with strict. For example a position table, if the model's context is shorter.
  std::vector<std::string> first_rows = {};
  // The mesh that the model is a part of, as Checkpoint::mesh. The files hold the whole model. All ranks of the mesh
  // call, with the same options. `written` can then read its own parameter alone.
  std::optional<Mesh> mesh = std::nullopt;
  // Saving: names of the model's parameters in the order of the file. All others come behind them. Without it the order
  // is that of the pipeline's blocks, or of the units, so that files of the same model may differ in it.
  std::vector<std::string> order = {};
};

// Fills the parameters and buffers from `path`: a folder with model.safetensors, or with model.safetensors.index.json
// and its files, or one of these files. fp64, fp32, fp16 and bf16 are converted to the model's dtypes. Whole numbers
// are converted if the buffer is floating (in a module that was converted as a whole). An optimizer keeps its state.
// Each rank reads its own part, and holds it twice until all is read, except shards in offload files. A collective.
// Throws `Error`, with nothing changed, for missing or extra names, other shapes or dtypes (the message lists all), and
// damaged files. If a file for offloaded shards becomes unreadable during the load, it throws `Error`, and every use of
// the model throws until another load succeeds.
void load_pretrained(const std::filesystem::path& path, ShardedModel& model, const PretrainedOptions& options = {});

// Writes the parameters, whole and in fp32, and rank 0's buffers to `directory`/model.safetensors. `load_pretrained`
// reads it; so does transformers, with a config.json beside it. Creates the directory if needed. The file appears
// whole, in place of an older one. Rank 0 holds and writes one unit at a time. A collective. Throws `Error` on every
// rank if rank 0 cannot write.
void save_pretrained(const std::filesystem::path& directory, ShardedModel& model,
                     const PretrainedOptions& options = {});

}  // namespace fsdp
