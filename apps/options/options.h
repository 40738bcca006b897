// The options of each command. option_rows_*.cpp say how each of these is called, what it may be and where it belongs;
// resolve.h fills in what follows from others.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/data_order.h"
#include "models/model_config.h"
#include "models/recomputation.h"
#include "options/learning_rate.h"

namespace trainer {

// The words for fsdp::Strategy and for dtypes; sharding.h says what they mean. Those for fsdp::PipelineSchedule are in
// its order.
inline constexpr std::array<const char*, 6> kStrategies = {"full-shard", "shard-grad-op", "shard-optimizer",
                                                           "no-shard",   "hybrid-shard",  "hybrid-shard-grad-op"};
inline constexpr std::array<const char*, 3> kDtypes = {"fp32", "bf16", "fp16"};
inline constexpr std::array<const char*, 3> kTokenKinds = {"nanogpt", "llmc-gpt2", "llmc-llama3"};
inline constexpr std::array<const char*, 2> kOptimizers = {"adamw", "muon"};
inline constexpr std::array<const char*, 3> kOptimizerStates = {"fp32", "bf16", "8bit"};
inline constexpr std::array<const char*, 3> kOffloads = {"none", "optimizer", "all"};
inline constexpr std::array<const char*, 2> kOnNonfinite = {"stop", "skip"};
inline constexpr std::array<const char*, 2> kOnFailedSave = {"continue", "stop"};
inline constexpr std::array<const char*, 5> kPipelineSchedules = {
    "one-at-a-time", "all-forward-all-backward", "one-forward-one-backward", "interleaved", "zero-bubble"};
inline constexpr std::array<const char*, 3> kShells = {"bash", "zsh", "fish"};

// Steps, both ends included, counted from 1.
struct StepRange {
  int64_t first = 1, last = 1;
  bool operator==(const StepRange&) const = default;
};

// That a profile has at most: rank 0 holds the traces of all ranks.
inline constexpr int64_t kMostProfiledSteps = 100;

// Which model, and what of its shape is to be otherwise; model_choice.h makes a shape of it.
struct ModelOptions {
  std::string model;  // a size by name, or a file; empty: the small GPT-2 of models::ModelConfig
  std::string init_from;
  std::optional<int64_t> vocabulary, context, width, layers, heads, key_value_heads, mlp_width;
  std::optional<bool> tie_embeddings;
  std::optional<double> dropout, rope_theta;
  std::optional<int64_t> lora;  // the rank of low-rank adapters; none: there are none
  std::optional<double> lora_alpha, lora_dropout;
  std::string lora_targets;  // empty: as model_choice.h says
};

// The options chosen on the command line or in a file, by their flags. All others have their defaults, or
// follow from these.
struct Choices {
  std::set<std::string> flags;
  std::set<std::string> relative;  // those of them that name a path which was relative where it was written
};

// The choice of --plan, for people.
struct PlannedOptions {
  std::string flags;    // "--strategy no-shard --batch 4 --micro-batches 2"; empty: all were given
  std::string figures;  // "a step of 12 ms, at most 45 MB per rank"
};

// Common to train, prepare and sample.
struct CommonOptions {
  std::string config;        // the file that the options below were read from
  std::string config_paths;  // the folder that relative paths in it are relative to; empty: it has none
  Choices chosen;
  std::string tokenizer = "bytes";
  int64_t threads = 0;  // a rank; 0: the cores shared evenly, or OMP_NUM_THREADS
};

// The text of train and prepare.
struct TextOptions {
  std::string text;        // a file or a folder
  std::string validation;  // empty: a part of the text
  double validation_fraction = 0.05;
  std::string cache;
};

// The model of train and sample, as it is sharded and loaded.
struct ShardedModelOptions {
  ModelOptions model_options;
  models::ModelConfig model;  // what they come to
  std::string run;            // the run's folder; empty: a fresh one (run/fresh_folder.h)
  std::string checkpoint;     // empty: begin anew
  int64_t timeout = 600;

  std::string strategy = "full-shard";  // one of kStrategies
  int64_t shard_group_size = 0;         // 0: all ranks, or the ranks of a host for the hybrid strategies
  std::string param_dtype = "fp32";     // one of kDtypes
  std::string reduce_dtype = "fp32";    // one of kDtypes
  int64_t layers_per_unit = 1;          // of the model
  int64_t buffers = 2;
  int64_t prefetch = 1;
  bool cpu_offload = false;                            // of ranks on GPUs: shards and optimizer on the CPU
  std::string offload = "none";                        // to files; one of kOffloads
  bool offload_activations = false;                    // to files
  std::string offload_directory;                       // of them all; empty: a folder of the run's
  bool offloads() const { return offload != "none"; }  // a part of the state

  // The mesh: ranks are data x pipeline x tensor, and the state is sharded over data. With 1 x 1 there is no mesh.
  int64_t pipeline_parallel = 1, tensor_parallel = 1;
  std::optional<int64_t> tensor_parts;  // none: those of the checkpoint that a run goes on from, or `tensor_parallel`
  bool sequence_parallel = false;
  std::string pipeline_schedule = "one-forward-one-backward";  // one of kPipelineSchedules
  int64_t stages_per_rank = 1;
  std::string stages = "auto";  // or the blocks of each stage, "4,4,3,1" or "4*2,3,1"
  // That hold the model once, if they do not shard it.
  int64_t ranks_of_replica() const { return pipeline_parallel * tensor_parallel; }
  bool has_mesh() const { return ranks_of_replica() > 1; }
  int64_t parts() const { return tensor_parts.value_or(tensor_parallel); }
  bool is_divided() const { return has_mesh() || parts() > 1; }
  int64_t stage_count() const { return pipeline_parallel * stages_per_rank; }
};

// Text that the model writes, in train and sample.
struct WritingOptions {
  int64_t seed = 1;  // of a training, too
  int64_t sample_length = 400;
  double temperature = 0.8;
  int64_t top_k = 40;
  std::string prompt = "\n";
};

// The options of train, also with --dry-run and --eval-only.
struct RunOptions : CommonOptions, TextOptions, ShardedModelOptions, WritingOptions {
  int64_t defaults_version = 2;  // of --steps and --lr (training_defaults.h)
  bool dry_run = false;
  std::string plan;                  // auto, or a machine (planning/hardware_file.h); empty: nothing is planned
  PlannedOptions planned;            // by it
  std::optional<double> memory;      // bytes that each host has for a dry run; none: as this one has
  std::optional<int64_t> hosts;      // with the ranks of a dry run; none: as this job's
  std::optional<double> peak_flops;  // operations per second of a rank in a dry run, at most; none: as measured here
  bool ignore_memory = false;        // trains even where the plan asks for more than there is
  bool eval_only = false;
  bool json = false;  // how the result of an evaluation is printed

  std::string data;                   // in place of a text
  std::optional<double> epochs;       // given: `steps` follow
  std::optional<int64_t> most_steps;  // as --steps says beside --epochs: what is reached first ends the run

  int64_t ranks = 1;                    // with `elastic` the most, by which the micro-batches of a step are counted
  std::optional<int64_t> max_restarts;  // none: kRestarts where `elastic` or `hot_restart` asks for them, otherwise 0
  std::string elastic;                  // "2:4", the least and the most ranks (rank_range.h); empty: `ranks` alone
  bool hot_restart = false;
  int64_t hang_timeout = 0;  // seconds; 0: no watch
  static constexpr int64_t kRestarts = 10;
  int64_t restarts() const { return max_restarts.value_or(elastic.empty() && !hot_restart ? 0 : kRestarts); }

  std::string activation_checkpoint = "none";  // or all, selective, or a number of layers
  std::optional<double> activation_memory;     // bytes that a rank's activations may take; none: any

  int64_t steps = 300;
  int64_t batch = 8;
  int64_t micro_batches = 1;
  std::optional<int64_t> target_tokens_per_step;  // given: `micro_batches` follow
  int64_t patience = 0;                           // 0: no early stop
  std::string on_nonfinite = "stop";              // one of kOnNonfinite
  std::string freeze;  // patterns of parameters that are not trained, with commas between them (frozen.h)

  std::string optimizer = "adamw";       // one of kOptimizers
  std::string optimizer_state = "fp32";  // of AdamW's moments; one of kOptimizerStates
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-8;
  double weight_decay = 0.1;
  std::optional<double> muon_lr;  // none: as `lr`
  double muon_momentum = 0.95;
  double clip = 1.0;

  double lr = 1e-3;
  std::string schedule = "cosine";     // one of kSchedules
  std::optional<int64_t> warmup;       // none on the command line: a fifth of the steps, at most 100
  double final_lr = 0.1;               // of `lr`
  std::optional<int64_t> decay_steps;  // of WSD; none on the command line: a tenth of the steps

  bool no_strict = false;       // loads what fits of --checkpoint or --init-from
  std::string resume = "auto";  // or never, or the folder of a run or a checkpoint
  int64_t log_every = 0;        // 0: every few seconds
  int64_t validate_every = 0;
  int64_t validation_windows = 64;  // 0: all there are, which --eval-only means unless it is told otherwise
  int64_t save_every = 0;
  std::optional<double> save_minutes;  // none: as minutes_between_saves() says; 0: never
  int64_t keep = 0;                    // 0: all
  bool no_best = false;
  bool no_save = false;
  bool save_sync = false;                   // training waits for each save
  std::string on_failed_save = "continue";  // one of kOnFailedSave
  std::optional<StepRange> trace_steps;
  std::string profile;  // the folder of a profile of these steps; empty: there is none
  bool export_model = false;
  bool export_best = false;  // of the best checkpoint, not of the last step

  int64_t sample_every = 0;

  // The sequences of all ranks per step in the resumed run: `micro_batches` follow if they can.
  std::optional<int64_t> sequences_per_step;

  models::Recomputation recomputation() const {
    if (activation_memory) return {.blocks = model.layers};  // until it is decided
    if (activation_checkpoint == "none") return {};
    if (activation_checkpoint == "all") return {.blocks = model.layers};
    if (activation_checkpoint == "selective") return {.blocks = model.layers, .keeps_products = true};
    return {.blocks = std::stoll(activation_checkpoint)};
  }
  // Ranks with micro-batches of their own.
  int64_t data_ranks() const { return std::max<int64_t>(1, ranks / ranks_of_replica()); }
  data::StepShape step_shape() const { return {.ranks = data_ranks(), .micro_batches = micro_batches, .batch = batch}; }
  bool scales_loss() const { return param_dtype == "fp16"; }  // whose range is too small for gradients as they are
  int64_t micro_batches_of_step() const { return data_ranks() * micro_batches; }
  int64_t tokens_per_step() const { return micro_batches_of_step() * batch * model.context; }
  // Without --validate-every a run of some length validates once before its end, to see whether the loss still falls.
  bool validates_after(int64_t step) const {
    constexpr int64_t kLong = 100;
    if (step == steps) return true;
    if (validate_every > 0) return step % validate_every == 0;
    return steps >= kLong && step == steps * 4 / 5;
  }
  // The last validation alone compares with nothing.
  bool keeps_best() const { return validate_every > 0 && !no_best && !no_save; }
  // 0: no checkpoint is due by the clock. One that may start again by itself goes on from where it was saved last.
  double minutes_between_saves() const {
    const bool nothing_else_saves = save_every == 0 && !no_save;
    return save_minutes.value_or(restarts() > 0 && nothing_else_saves ? kMinutesBetweenSaves : 0);
  }
  static constexpr double kMinutesBetweenSaves = 10;
  // Those before the last one, which nothing comes after.
  bool saves_beside_steps() const {
    return !save_sync && !no_save && (save_every > 0 || minutes_between_saves() > 0 || keeps_best());
  }
  std::string best_folder() const { return run + "/best"; }
  std::string checkpoint_folder(int64_t step) const { return run + "/step-" + std::to_string(step); }
  LearningRate learning_rate() const {
    return {.peak = lr,
            .warmup = *warmup,
            .steps = steps,
            .schedule = schedule_named(schedule),
            .final_share = final_lr,
            .decay_steps = decay_steps.value_or(0)};
  }
};

struct PrepareOptions : CommonOptions, TextOptions {
  std::string kind;    // of the token files; one of kTokenKinds
  std::string output;  // their folder
};

struct SampleOptions : CommonOptions, ShardedModelOptions, WritingOptions {
  int64_t samples = 1;
};

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output;  // the page
  bool watch = false;  // writes the page again while a run goes on
};

struct CompletionOptions {
  std::string shell;  // one of kShells
};

// The options of all commands: the rows of the table lie in here. A command gets its own of them.
struct AllOptions : RunOptions, ReportOptions, CompletionOptions {
  std::string kind = "nanogpt";
  int64_t samples = 1;

  PrepareOptions prepare() const { return {*this, *this, kind, output}; }
  SampleOptions sample() const { return {*this, *this, *this, samples}; }
};

}  // namespace trainer
