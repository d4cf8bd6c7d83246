// If dmlc-core is on the include path, rabit uses its types. Exits with 0 if they work.
#include <dmlc/io.h>
#include <rabit/rabit.h>

#include <cstdio>

namespace {

struct Model : dmlc::Serializable {
  int value = 3;
  void Load(dmlc::Stream* from) override { from->Read(&value, sizeof value); }
  void Save(dmlc::Stream* to) const override { to->Write(&value, sizeof value); }
};

}  // namespace

int main(int argc, char** argv) {
  rabit::Init(argc, argv);
  Model model;
  rabit::Serializable* same = &model;
  std::string bytes;
  rabit::utils::MemoryBufferStream stream(&bytes);
  same->Save(&stream);
  const bool is_new = rabit::LoadCheckPoint(&model) == 0;
  rabit::CheckPoint(&model);
  const bool is_right = dmlc::kFromDmlcCore && bytes.size() == sizeof model.value && is_new &&
                        rabit::VersionNumber() == 1;
  return rabit::Finalize() && is_right ? 0 : 1;
}
