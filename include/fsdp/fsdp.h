// libfsdp: sharded data-parallel training for LibTorch. This header brings everything.
#pragma once

#include <torch/torch.h>

#include "fsdp/activation_checkpoint.h"
#include "fsdp/activation_memory.h"
#include "fsdp/activations.h"
#include "fsdp/checkpoint.h"
#include "fsdp/collectives.h"
#include "fsdp/deferred_init.h"
#include "fsdp/error.h"
#include "fsdp/hot_restart.h"
#include "fsdp/loss.h"
#include "fsdp/mesh.h"
#include "fsdp/micro_batch.h"
#include "fsdp/optim.h"
#include "fsdp/options.h"
#include "fsdp/pipeline.h"
#include "fsdp/plan.h"
#include "fsdp/random.h"
#include "fsdp/reversible.h"
#include "fsdp/sampler.h"
#include "fsdp/sharded_model.h"
#include "fsdp/sharded_models.h"
#include "fsdp/sync_batch_norm.h"
#include "fsdp/tensor_parallel.h"
#include "fsdp/version.h"
#include "fsdp/world.h"
