// A profile to show, made here: two ranks, of which the second is slow, and three steps.
#pragma once

#include "report/profile.h"

// Its memory has so many samples per step.
trainer::Profile sample_profile(int samples = 8);
