// The options of ranks and of what is divided among them.
#include <regex>

#include "options/numbers.h"
#include "options/option_groups.h"
#include "options/rank_range.h"

namespace trainer {

namespace {

using O = AllOptions;

constexpr int64_t kMostLayers = 4096;

bool names_layers(const std::string& value) {
  if (value == "none" || value == "all" || value == "selective") return true;
  const auto layers = whole_number_in(value);
  return layers && *layers >= 1 && *layers <= kMostLayers && value == std::to_string(*layers);
}

// Numbers with commas between them, each maybe times another. How many they should be follows from other options.
bool names_cuts(const std::string& value) {
  static const std::regex cuts("[1-9][0-9]*(\\*[1-9][0-9]*)?(,[1-9][0-9]*(\\*[1-9][0-9]*)?)*");
  return value == "auto" || std::regex_match(value, cuts);
}

bool is_rank_range(const std::string& value) { return rank_range_in(value).has_value(); }

std::vector<Row> ranks_rows() {
  return {{"--ranks", &O::ranks, from(1, kPlannedRanks), kTrain, "PROCESSES", "",
           "Number of processes that share the model. Under torchrun, SLURM or Open MPI the launcher's number counts."},
          {"--threads", &O::threads, from(0, 1024), kTrain | kSample | kPrepare, "THREADS", "the cores shared evenly",
           "Number of threads per rank. prepare encodes with so many, by default with all cores."},
          {"--timeout", &O::timeout, from(1, kMany), kTrainAndSample, "SECONDS", "",
           "Seconds that a rank waits for another before the job ends."},
          {"--max-restarts", &O::max_restarts, from(0, kMany), kTrain, "N", "0, or 10 with --elastic or --hot-restart",
           "Starts the job again after a rank died or failed, at most so often. It resumes from the newest checkpoint. "
           "Under a launcher, use the launcher's option."},
          {"--hot-restart", &O::hot_restart, Anything{}, kTrain, "", "",
           "Keeps shards and optimizer state in memory that outlives a rank. After a kill the job repeats the broken "
           "step, without a checkpoint. On one host, without a launcher."},
          {"--elastic", &O::elastic, Form{is_rank_range, "the least and the most ranks, such as 2:4"}, kTrain,
           "MIN:MAX", "none",
           "After the death of a rank, continues with the others, at least MIN. From the next checkpoint on it has MAX "
           "again; SIGUSR2 saves one at once. A step keeps the micro-batches of MAX ranks, and the weights their bits. "
           "Under torchrun or SLURM a run resumes with any number of ranks from MIN to MAX."},
          {"--hang-timeout", &O::hang_timeout, from(0, kMany), kTrain, "SECONDS", "never",
           "Ends the job if a rank makes no progress for so long. Before that, every rank writes the stacks of its "
           "threads to RUN/hang-RANK.txt. Choose more than a micro-batch, a validation or a save takes."}};
}

std::vector<Row> mesh_rows() {
  return {{"--pipeline-parallel", &O::pipeline_parallel, from(1, 1024), kTrain, "RANKS", "",
           "Number of ranks among which the layers are divided, in stages. The state of a stage is sharded over "
           "ranks / (pipeline x tensor) ranks, which have micro-batches of their own."},
          {"--tensor-parallel", &O::tensor_parallel, from(1, 1024), kTrain, "RANKS", "",
           "Number of ranks among which the matrices of each layer are divided. Choose ranks of one host."},
          {"--tensor-parts", &O::tensor_parts, from(1, 1024), kTrain, "PARTS",
           "as --tensor-parallel, or as in the checkpoint",
           "Number of parts in which matrices are computed, a multiple of --tensor-parallel. It decides the bits of a "
           "run: any number of ranks with as many parts has the same."},
          {"--sequence-parallel", &O::sequence_parallel, Anything{}, kTrain, "", "",
           "Divides the activations between divided layers along the sequence: less memory. The context has to be a "
           "multiple of the parts."},
          {"--pipeline-schedule", &O::pipeline_schedule, words(kPipelineSchedules), kTrain, "SCHEDULE", "",
           "Order of forwards and backwards in a pipeline. It changes time and memory, and no bit."},
          {"--stages-per-rank", &O::stages_per_rank, from(1, 1024), kTrain, "STAGES", "",
           "Number of stages that each rank of a pipeline has. interleaved is for 2 or more."},
          {"--stages", &O::stages, Form{names_cuts, "auto, or blocks of each stage such as 4,4,3,1 or 4*2,3,1"}, kTrain,
           "CUTS", "",
           "Number of blocks of each stage. The blocks are the embedding, the layers and the head. auto divides their "
           "operations evenly."}};
}

std::vector<Row> sharding_rows() {
  return {{"--strategy", &O::strategy, words(kStrategies), kTrain, "STRATEGY", "",
           "Chooses the state that is divided among the ranks."},
          {"--shard-group-size", &O::shard_group_size, from(0, kPlannedRanks), kTrain, "RANKS",
           "all, or a host's for hybrid strategies", "Number of ranks that together hold the model once."},
          {"--param-dtype", &O::param_dtype, words(kDtypes), kTrainAndSample, "DTYPE", "",
           "Dtype of full parameters, and of the forward and the backward pass."},
          {"--reduce-dtype", &O::reduce_dtype, words(kDtypes), kTrain, "DTYPE", "",
           "Dtype of gradients sent between ranks. Their sums are fp32."},
          {"--layers-per-unit", &O::layers_per_unit, from(1, 4096), kTrainAndSample, "LAYERS", "",
           "Number of layers that are gathered and reduced together, as a unit. More layers make fewer and larger "
           "messages, and larger buffers."},
          {"--buffers", &O::buffers, from(2, 1024), kTrainAndSample, "UNITS", "",
           "Number of units that are full at once, if gathers copy."},
          {"--prefetch", &O::prefetch, from(0, 1024), kTrainAndSample, "UNITS", "",
           "Number of units that are gathered ahead of their use."},
          {"--activation-checkpoint", &O::activation_checkpoint,
           Form{names_layers, "none, all, selective, or a number of layers from 1 to 4096"}, kTrain, "LAYERS", "",
           "Layers that keep only their input for the backward, which runs them again. This saves memory for a third "
           "more computation, with the same bits. A number is spread evenly over the layers. selective is all layers, "
           "but keeps the results of matrix products and attention, and costs nearly no time."},
          {"--activation-memory", &O::activation_memory, kUpToBytes, kTrain, "BYTES", "any",
           "Memory of activations per rank, such as 1.5GB. The first step measures. From the second on each layer "
           "keeps all its activations, the results of its products, or only its input, with the least extra time "
           "within the limit. The bits are the same."},
          {"--cpu-offload", &O::cpu_offload, Anything{}, kTrain, "", "",
           "Ranks on GPUs keep their shards and the optimizer's state in the host's memory. The sums of gradients lie "
           "there as well, and the CPU updates the weights. The GPU holds the layers in use. On CPUs nothing changes."},
          {"--offload", &O::offload, words(kOffloads), kTrain, "WHAT", "",
           "Keeps the optimizer's state, or all of a model's shards, in files mapped into memory. They need memory "
           "only while a layer uses them. The weights are the same to the bit."},
          {"--offload-activations", &O::offload_activations, Anything{}, kTrain, "", "",
           "Keeps tensors that the forward saves for the backward, of 64 KiB or more, in files instead of in memory. "
           "With --activation-checkpoint these are the inputs of layers. The weights are the same to the bit."},
          {"--offload-directory", &O::offload_directory, Anything{}, kTrain, "FOLDER", "offload in the run's folder",
           "Folder of the files of --offload and --offload-activations, best on a fast local disk. It needs 16 bytes "
           "per parameter, or 8 with --offload optimizer, divided among the ranks, and room for the activations of "
           "each rank. No file is left there."}};
}

}  // namespace

std::vector<Group> rank_groups() {
  return {{"Ranks", "ranks", ranks_rows()},
          {"Mesh of ranks", "mesh", mesh_rows()},
          {"Sharding", "sharding", sharding_rows()}};
}

}  // namespace trainer
