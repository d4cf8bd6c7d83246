// MPI_Info_*: lists of words. Nothing here reads them.
#include "pmpi/info.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "api.h"
#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "pmpi/fortran.h"

namespace rejoin::pmpi {

struct InfoEntry {
  char key[MPI_MAX_INFO_KEY + 1];
  char value[MPI_MAX_INFO_VAL + 1];
  InfoEntry* next;
};

namespace {

int check_info(const char* name, MPI_Info info) {
  require_active(name);
  if (is_info(info)) return MPI_SUCCESS;
  return fail(name, MPI_COMM_WORLD, MPI_ERR_INFO,
              "the info object is MPI_INFO_NULL, or it was freed");
}

int check_key(const char* name, MPI_Info info, const char* key) {
  if (const int code = check_info(name, info)) return code;
  const std::size_t bytes = key == nullptr ? 0 : strlen(key);
  if (bytes >= 1 && bytes <= MPI_MAX_INFO_KEY) return MPI_SUCCESS;
  return fail(name, MPI_COMM_WORLD, MPI_ERR_INFO_KEY, "a key has between 1 and %d characters",
              MPI_MAX_INFO_KEY);
}

// Returns the pointer that points to the entry with `key`, or to which it would be appended.
InfoEntry** find(MPI_Info info, const char* key) {
  InfoEntry** e = &info->first;
  while (*e != nullptr && strcmp((*e)->key, key) != 0) e = &(*e)->next;
  return e;
}

void put(MPI_Info info, const char* key, const char* value) {
  InfoEntry** e = find(info, key);
  if (*e == nullptr) {
    *e = make<InfoEntry>();
    strcpy((*e)->key, key);
  }
  strcpy((*e)->value, value);
}

}  // namespace

MPI_Info make_info() {
  MPI_Info info = make<ompi_info_t>();
  *info = {Magic::kInfo, nullptr, kNoFortranHandle, false};
  return info;
}

int info_create(MPI_Info* info) {
  require_active("MPI_Info_create");
  *info = make_info();
  return MPI_SUCCESS;
}

int info_create_env(int, char*[], MPI_Info* info) {
  require_active("MPI_Info_create_env");
  *info = make_info();
  return MPI_SUCCESS;
}

int info_dup(MPI_Info info, MPI_Info* newinfo) {
  if (const int code = check_info("MPI_Info_dup", info)) return code;
  *newinfo = make_info();
  for (InfoEntry* e = info->first; e != nullptr; e = e->next) put(*newinfo, e->key, e->value);
  return MPI_SUCCESS;
}

int info_free(MPI_Info* info) {
  constexpr const char* kName = "MPI_Info_free";
  if (const int code = check_info(kName, info == nullptr ? nullptr : *info)) return code;
  if ((*info)->predefined) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_INFO, "MPI_INFO_ENV cannot be freed");
  }
  forget(&context->infos, (*info)->fortran);
  while (InfoEntry* e = (*info)->first) {
    (*info)->first = e->next;
    destroy(e);
  }
  (*info)->magic = Magic::kNone;
  destroy(*info);
  *info = MPI_INFO_NULL;
  return MPI_SUCCESS;
}

int info_set(MPI_Info info, const char* key, const char* value) {
  constexpr const char* kName = "MPI_Info_set";
  if (const int code = check_key(kName, info, key)) return code;
  const std::size_t bytes = value == nullptr ? 0 : strlen(value);
  if (bytes < 1 || bytes > MPI_MAX_INFO_VAL) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_INFO_VALUE,
                "a value has between 1 and %d characters", MPI_MAX_INFO_VAL);
  }
  put(info, key, value);
  return MPI_SUCCESS;
}

int info_delete(MPI_Info info, const char* key) {
  constexpr const char* kName = "MPI_Info_delete";
  if (const int code = check_key(kName, info, key)) return code;
  InfoEntry** e = find(info, key);
  if (*e == nullptr) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_INFO_NOKEY, "there is no key '%s'", key);
  }
  InfoEntry* gone = *e;
  *e = gone->next;
  destroy(gone);
  return MPI_SUCCESS;
}

int info_get(MPI_Info info, const char* key, int valuelen, char* value, int* flag) {
  if (const int code = check_key("MPI_Info_get", info, key)) return code;
  const InfoEntry* e = *find(info, key);
  *flag = e != nullptr;
  if (e == nullptr) return MPI_SUCCESS;
  const std::size_t room = valuelen < 0 ? 0 : static_cast<std::size_t>(valuelen);
  give_text(value, room + 1, e->value);
  return MPI_SUCCESS;
}

int info_get_string(MPI_Info info, const char* key, int* buflen, char* value, int* flag) {
  if (const int code = check_key("MPI_Info_get_string", info, key)) return code;
  const InfoEntry* e = *find(info, key);
  *flag = e != nullptr;
  if (e == nullptr) return MPI_SUCCESS;
  if (*buflen > 0) give_text(value, static_cast<std::size_t>(*buflen), e->value);
  *buflen = static_cast<int>(strlen(e->value)) + 1;
  return MPI_SUCCESS;
}

int info_get_valuelen(MPI_Info info, const char* key, int* valuelen, int* flag) {
  if (const int code = check_key("MPI_Info_get_valuelen", info, key)) return code;
  const InfoEntry* e = *find(info, key);
  *flag = e != nullptr;
  if (e != nullptr) *valuelen = static_cast<int>(strlen(e->value));
  return MPI_SUCCESS;
}

int info_get_nkeys(MPI_Info info, int* nkeys) {
  if (const int code = check_info("MPI_Info_get_nkeys", info)) return code;
  *nkeys = 0;
  for (const InfoEntry* e = info->first; e != nullptr; e = e->next) ++*nkeys;
  return MPI_SUCCESS;
}

int info_get_nthkey(MPI_Info info, int n, char* key) {
  constexpr const char* kName = "MPI_Info_get_nthkey";
  if (const int code = check_info(kName, info)) return code;
  const InfoEntry* e = n < 0 ? nullptr : info->first;
  for (int i = 0; e != nullptr && i < n; ++i) e = e->next;
  if (e == nullptr) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_INFO_KEY, "there is no key number %d", n);
  }
  give_text(key, std::max<std::size_t>(MPI_MAX_INFO_KEY, strlen(e->key) + 1), e->key);
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
