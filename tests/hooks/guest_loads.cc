// SPDX-License-Identifier: MIT
// Functions that are found while the program runs: in libraries that only who loaded them sees, in two
// libraries of one name each, by every kind of handle, and not at all.
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>

#include "guest.h"

namespace
{
using Answer = int (*)(int);
using Send = size_t (*)(const void *, size_t);

// Libraries lie beside the program.
void *load(const std::string &name)
{
    Dl_info here;
    dladdr(reinterpret_cast<void *>(loads_by_dlsym), &here);
    std::string path = here.dli_fname;
    path = path.substr(0, path.rfind('/') + 1) + "libhooks_" + name + ".so";
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(1);
    }
    return handle;
}

template <typename Function> Function find(void *handle, const char *name)
{
    return reinterpret_cast<Function>(dlsym(handle, name));
}

void ask(void *handle, const char *name, int value)
{
    std::printf("%s %d\n", name, find<Answer>(handle, name)(value));
}

void say_found(const char *what, void *found)
{
    std::printf("%s: %s\n", what, found ? "found" : "not found");
    if (found)
        std::printf("%s sends %zu\n", what, reinterpret_cast<Send>(found)("", 5));
}

// Without the name of the object that was asked, whichever that was.
std::string error_now()
{
    const char *error = dlerror();
    std::string text = error ? error : "none";
    size_t at = text.rfind("undefined symbol");
    return at == std::string::npos ? text : text.substr(at);
}
} // namespace

void loads_by_dlsym()
{
    void *plugin = load("plugin_1");
    ask(plugin, "plugin_answer", 1);
    ask(plugin, "plugin_answer", 2);
    ask(plugin, "plugin_ask_itself", 3);
    std::printf("send %zu\n", find<size_t (*)(size_t)>(plugin, "plugin_send")(4));
    dlclose(plugin);
}

void loads_two_of_one_name()
{
    void *plugins[] = {load("plugin_1"), load("plugin_2")};
    void *users[] = {load("user_1"), load("user_2")};
    for (int i = 0; i < 4; i++)
        ask(plugins[i % 2], "plugin_answer", i);
    for (void *plugin : plugins)
        ask(plugin, "plugin_ask_itself", 5);
    ask(users[0], "user_1", 6);
    ask(users[1], "user_2", 6);
    bool same = dlsym(plugins[0], "plugin_answer") == dlsym(plugins[0], "plugin_answer");
    bool other = dlsym(plugins[0], "plugin_answer") != dlsym(plugins[1], "plugin_answer");
    std::printf("same %d, other %d\n", same, other);
}

// Whatever was learned of a library is forgotten with it: another one may come to lie where it was.
void loads_again_and_again()
{
    for (int i = 0; i < 50; i++) {
        void *plugin = load(i % 2 ? "plugin_2" : "plugin_1");
        ask(plugin, "plugin_answer", i);
        dlclose(plugin);
    }
}

void loads_a_constructor()
{
    for (int i = 0; i < 2; i++) {
        void *user = load(i ? "user_2" : "user_1");
        dlclose(user);
    }
}

void loads_by_all_ways()
{
    void *self = dlopen(nullptr, RTLD_NOW), *plugin = load("plugin_1");
    std::printf("one address %d\n",
                dlsym(RTLD_DEFAULT, "guest_send") == reinterpret_cast<void *>(guest_send) &&
                    dlsym(self, "guest_send") == reinterpret_cast<void *>(guest_send));
    say_found("by default", dlsym(RTLD_DEFAULT, "guest_send"));
    say_found("of all", dlsym(self, "guest_send"));
    say_found("next", dlsym(RTLD_NEXT, "guest_send"));
    say_found("of a dependent", dlsym(plugin, "guest_send"));
    say_found("next after a plugin", find<void *(*)(const char *)>(plugin, "plugin_next")("guest_send"));
    std::printf("next of C: %d\n", find<void *(*)(const char *)>(plugin, "plugin_next")("strlen") != nullptr);
    std::printf("by version: %d %d\n", dlvsym(RTLD_DEFAULT, "fopen", "GLIBC_2.2.5") != nullptr,
                dlvsym(RTLD_DEFAULT, "fopen", "NOBODY_1") != nullptr);
    dlclose(plugin);
}

void loads_unknown_names()
{
    void *plugin = load("plugin_1");
    for (void *handle : {RTLD_DEFAULT, RTLD_NEXT, plugin})
        for (const char *name : {"guest_nobody", "nobody_at_all"}) {
            void *found = dlsym(handle, name);
            std::printf("%s: %d, %s\n", name, found != nullptr, error_now().c_str());
        }
    std::printf("afterwards: %s\n", error_now().c_str());
}
