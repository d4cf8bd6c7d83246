// Streams, and what can be written to and read from them.
//
//     struct Model : rabit::Serializable {
//       int rounds;
//       std::vector<float> weights;
//       void Load(rabit::Stream* from) override { from->Read(&rounds); from->Read(&weights); }
//       void Save(rabit::Stream* to) const override { to->Write(rounds); to->Write(weights); }
//     };
//
// The types belong to namespace dmlc. A program that has dmlc-core on its include path gets
// dmlc-core's own, so that its objects are Serializable here as well; any other gets dmlc/io.h of
// this folder.
#pragma once

#include <dmlc/io.h>

namespace rabit {

typedef dmlc::Stream Stream;
typedef dmlc::Serializable Serializable;

}  // namespace rabit
