// The ancestor's first versions had rabit/internal/timer.h under this name.
#pragma once

#include "rabit/internal/timer.h"
