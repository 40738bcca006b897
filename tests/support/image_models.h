// Small models of images, as people write them: few have containers of equal blocks.
#pragma once

#include <vector>

#include "support/models.h"

namespace fsdp::testing_models {

// U-Net (https://arxiv.org/abs/1505.04597), VGG (https://arxiv.org/abs/1409.1556), EfficientNet
// (https://arxiv.org/abs/1905.11946), YOLO (https://arxiv.org/abs/1804.02767), the two of DCGAN
// (https://arxiv.org/abs/1511.06434), and a model of the noise in an image (https://arxiv.org/abs/2006.11239).
std::vector<ModelKind> image_model_kinds();

// VGG whose first linear layer holds most of the model, as it does in the original.
TestModel make_vgg_with_large_layer();

}  // namespace fsdp::testing_models
