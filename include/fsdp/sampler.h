// Which samples of a data set each micro-batch consists of: the same on any number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fsdp/world.h"

namespace fsdp {

// Options of Sampler, the same on every rank.
struct SamplerOptions {
  int64_t batch_size = 1;  // samples per micro-batch, 1 or more
  // Micro-batches per step, of all ranks together: a multiple of the number of ranks. 0: one per rank, so that more
  // ranks make larger steps.
  int64_t micro_batches = 0;
  // Each epoch visits the samples in a random order of its own, made of `seed` and the epoch's number. false: 0,
  // 1, 2...
  bool shuffle = true;
  uint64_t seed = 0;  // of the epochs' orders
  // For an epoch that does not end with a step. True leaves out its last samples, fewer than one step takes, so each
  // epoch begins with a step. False completes the step with the first samples of the next epoch, so no sample is left
  // out. Either way each micro-batch is full.
  bool drop_last = false;
};

// Deals the samples of a data set to the micro-batches of a job, in the order of docs/determinism.md. Micro-batch b of
// rank r on N ranks has the number b * N + r, and takes the samples of that place. With the same options, a step sees
// the same samples on any number of ranks. Each rank computes its own samples, without communication.
//
//   fsdp::Sampler sampler(data.size(), world, {.batch_size = 8, .micro_batches = 4, .seed = 1});
//   sharded.set_gradient_divisor(4);
//   for (; step < kSteps; ++step) {
//     for (int64_t round = 0; round < sampler.rounds(); ++round) {
//       fsdp::seed_micro_batch(1, step, sampler.micro_batch());  // for a forward that draws numbers
//       loss_of(data.batch(sampler.next())).backward();
//     }
//     optimizer.step();
//     optimizer.zero_grad();
//   }
//
// To resume, keep state() among the notes of a checkpoint, and give it to load_state() on any number of ranks.
//
// A value: a copy goes on by itself. Memory does not depend on the number of samples. One thread at a time.
class Sampler {
 public:
  // `samples`: their number, 1 to 2^62. Throws `Error` for options out of range, micro-batches that the ranks cannot
  // divide evenly, and drop_last with fewer samples than a step takes.
  Sampler(int64_t samples, const World& world, SamplerOptions options = {});

  // The numbers of the samples of this rank's next micro-batch: batch_size of them, each from 0 to samples - 1. Every
  // rank calls it equally often. Without end: epoch follows epoch.
  std::vector<int64_t> next();

  // Calls of next() per step: micro_batches / world.size().
  int64_t rounds() const;
  // The number of the next micro-batch, counted over all ranks of its step.
  int64_t micro_batch() const;
  // The epoch that the next sample of the job belongs to, from 0.
  int64_t epoch() const;
  // Steps per epoch; with drop_last off rounded up.
  int64_t steps_per_epoch() const;

  // The position, as a short text. The same on every rank where all have called next() equally often.
  std::string state() const;
  // Goes on where `state` was taken. The number of ranks may be another one. So may batch_size and micro_batches where
  // drop_last is off: no sample is repeated or left out. Throws `Error` for other text, and for the state of a sampler
  // of another order: other samples, seed, shuffle or drop_last, or with drop_last another number of samples per step.
  void load_state(const std::string& state);

 private:
  int64_t samples_per_step() const;
  int64_t samples_per_epoch() const;
  int64_t sample_at(int64_t place) const;

  int64_t samples_;
  int64_t batch_size_;
  int64_t micro_batches_;
  uint64_t seed_;
  bool shuffle_;
  bool drop_last_;
  int64_t rank_;
  int64_t ranks_;
  int64_t taken_ = 0;  // samples that the job has taken, of all epochs
};

}  // namespace fsdp
