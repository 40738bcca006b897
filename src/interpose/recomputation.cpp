#include "interpose/recomputation.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

#include "base/error.h"
#include "interpose/key.h"

namespace fsdp::interpose {

namespace {

thread_local int open_runs = 0;  // one inside the other

// Thrown through the function where nothing more is needed of it. No std::exception, so that few catch it.
struct EndOfSecondRun {
  const CheckpointedCall* call;
};

// Stands for a tensor that the forward saved.
class NumberedHooks final : public ActivationHooks {
 public:
  explicit NumberedHooks(std::shared_ptr<CheckpointedCall> call) : call_(std::move(call)) {}

 private:
  void pack(const torch::Tensor& activation) override {
    number_ = call_->add(activation);
    // A module's parameter is there anyway, and so an optimizer's step since the forward is found.
    if (activation.is_leaf() && activation.requires_grad()) leaf_ = KeptTensor(activation);
  }
  torch::Tensor unpack() override { return leaf_.defined() ? leaf_.get() : call_->take(number_); }

  std::shared_ptr<CheckpointedCall> call_;
  size_t number_ = 0;
  KeptTensor leaf_;
};

// The values of a module's buffers outlast a second run.
class BuffersPutBack {
 public:
  explicit BuffersPutBack(const std::function<std::vector<torch::Tensor>()>& buffers) {
    if (!buffers) return;
    for (const torch::Tensor& buffer : buffers()) {
      if (buffer.defined()) buffers_.emplace_back(buffer, buffer.detach().clone());
    }
  }
  // Not a change that autograd hears of: a node that saved the buffer saved these values.
  ~BuffersPutBack() {
    for (const auto& [buffer, values] : buffers_) buffer.variable_data().copy_(values);
  }
  BuffersPutBack(const BuffersPutBack&) = delete;
  BuffersPutBack& operator=(const BuffersPutBack&) = delete;

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> buffers_;  // each with its values
};

}  // namespace

// Keeps what the function saves when it runs again, in its order.
class SecondRun final : public SavedTensorKeeper {
 public:
  explicit SecondRun(CheckpointedCall& call) : call_(call) { ++open_runs; }
  ~SecondRun() override { --open_runs; }
  SecondRun(const SecondRun&) = delete;
  SecondRun& operator=(const SecondRun&) = delete;

  SavedTensorHooks hooks() override { return std::make_unique<Hooks>(*this); }

  void keep(const torch::Tensor& tensor) {
    const size_t number = count_++;
    if (number >= call_.forms_.size()) return;
    check_form(number, tensor);
    call_.again_[number] = WatchedTensor(tensor);
    if (call_.function_.stop_early && count_ == call_.forms_.size()) throw EndOfSecondRun{&call_};
  }
  // True if it needs so many tensors more, and then none.
  bool ends_with(size_t tensors) const { return call_.function_.stop_early && count_ + tensors == call_.forms_.size(); }
  void check_count() const {
    const size_t expected = call_.forms_.size();
    const bool goes_on = count_ > expected && !call_.forward_is_over_;  // a backward inside the function
    FSDP_CHECK(count_ == expected || goes_on,
               "activation_checkpoint: run again in the backward, the function saved {} tensors, expected {} as in the "
               "forward. {}",
               count_, expected, kSameAgain);
  }

 private:
  // A function that runs a backward itself asks for a tensor while it still runs.
  class Hooks final : public ActivationHooks {
   public:
    explicit Hooks(SecondRun& run) : run_(run) {}

   private:
    void pack(const torch::Tensor& activation) override {
      kept_ = KeptTensor(activation);
      run_.keep(activation);
    }
    torch::Tensor unpack() override { return kept_.get(); }

    SecondRun& run_;
    KeptTensor kept_;
  };

  static constexpr const char* kSameAgain =
      "It must do the same both times: let nothing change in between that it depends on, such as a module's training "
      "mode, a global variable or a generator of your own.";

  void check_form(size_t number, const torch::Tensor& tensor) const {
    const TensorForm found = TensorForm::of(tensor);
    const TensorForm& expected = call_.forms_[number];
    FSDP_CHECK(
        found == expected,
        "activation_checkpoint: run again in the backward, the function saved other tensors than in the forward: "
        "number {} of {} is {}, expected {}. {}",
        number, call_.forms_.size(), found.words(), expected.words(), kSameAgain);
  }

  CheckpointedCall& call_;
  size_t count_ = 0;
};

CheckpointedCall::CheckpointedCall(const std::vector<torch::Tensor>& inputs, CheckpointedFunction function)
    : inputs_(inputs), surroundings_(inputs), function_(std::move(function)) {
  if (function_.measured) {
    measured_ = std::make_unique<MeasuredCall>(function_.measured, function_.measured_block, inputs, function_.keeps);
  } else if (function_.keeps_products) {
    kept_results_ = std::make_unique<KeptResultList>(function_.keeps);
  }
}

ResultList* CheckpointedCall::first_results() {
  if (measured_) return measured_.get();
  return kept_results_.get();
}

void CheckpointedCall::returned(const torch::Tensor& tensor) {
  if (ResultList* list = first_results()) list->forget(tensor);
}

void CheckpointedCall::count_saved(size_t tensors) {
  if (ResultList* list = first_results()) list->count_saved(tensors);
}

SavedTensorHooks CheckpointedCall::hooks() { return std::make_unique<NumberedHooks>(shared_from_this()); }

void CheckpointedCall::forward_ends() {
  surroundings_.forget_undrawn();
  ResultList* list = first_results();
  if (list != nullptr && function_.stop_early) list->forget_behind(forms_.size());
  forward_is_over_ = true;
  if (measured_) measured_->ends(function_.stop_early);
}

size_t CheckpointedCall::add(const torch::Tensor& tensor) {
  forms_.push_back(TensorForm::of(tensor));
  count_saved(forms_.size());
  if (measured_) measured_->saves(tensor);
  return forms_.size() - 1;
}

torch::Tensor CheckpointedCall::take(size_t number) {
  const std::lock_guard lock(mutex_);
  // Another backward took it, or this one did.
  if (number >= again_.size() || !again_[number].defined()) run_again();
  return std::exchange(again_[number], {}).get();
}

void CheckpointedCall::run_again() {
  if (measured_) measured_->runs_again();
  const std::vector<torch::Tensor> inputs = inputs_.again();  // inside another checkpoint, that one runs first
  again_.clear();
  again_.resize(forms_.size());
  const BuffersPutBack buffers(function_.buffers);
  const Surroundings::Restored then(surroundings_);
  SecondRun run(*this);
  {
    const SavedTensorsScope scope(&run);
    const KeptResultsScope results(kept_results_.get(), KeptResultsScope::Run::Second);
    try {
      function_.run_again(inputs);
    } catch (const EndOfSecondRun& end) {
      if (end.call != this) throw;
    }
  }
  run.check_count();
  forget_after_this_backward();
}

// Some may be left: not every node has its turn in a backward with respect to a few inputs.
void CheckpointedCall::forget_after_this_backward() {
  if (torch::autograd::get_current_graph_task_id() < 0) return;
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
    const std::shared_ptr<CheckpointedCall> call = weak.lock();
    if (!call) return;
    const std::lock_guard lock(call->mutex_);
    call->again_.clear();
    if (call->measured_) call->measured_->is_retained();
  });
}

bool runs_again() { return open_runs > 0; }

void about_to_save(std::initializer_list<const torch::Tensor*> tensors) {
  SavedTensorKeeper* keeper = saved_tensor_keeper();
  if (keeper == nullptr) return;
  std::vector<const torch::Tensor*> activations;
  for (const torch::Tensor* tensor : tensors) {
    if (tensor->defined() && !tensor->key_set().has(kKey)) activations.push_back(tensor);
  }
  if (auto* call = dynamic_cast<CheckpointedCall*>(keeper)) call->announce(activations.size());
  auto* run = dynamic_cast<SecondRun*>(keeper);
  if (run == nullptr || activations.empty() || !run->ends_with(activations.size())) return;
  for (const torch::Tensor* activation : activations) run->keep(*activation);
}

}  // namespace fsdp::interpose
