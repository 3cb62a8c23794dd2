/* Loaded before the Vulkan loader (LD_PRELOAD): a card with little memory, and one that vanishes.

   CARD_BYTES: what the card holds. CARD_REFUSES: the allocation, counted from 1, that it refuses, and all behind it.
   CARD_GONE: a file; once it exists, the device is lost to everything it is asked. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

enum { MOST = 65536 };

static struct { VkDeviceMemory memory; VkDeviceSize size; } held[MOST];
static VkDeviceSize used;
static unsigned long asked;
static PFN_vkGetInstanceProcAddr loader;
static VkInstance instance;

static PFN_vkVoidFunction real(const char *name) { return loader(instance, name); }

#define REAL(name) ((PFN_##name)real(#name))

static unsigned long long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static int gone(void) {
    const char *file = getenv("CARD_GONE");
    return file && access(file, F_OK) == 0;
}

static VkResult allocate(
    VkDevice device, const VkMemoryAllocateInfo *wanted, const VkAllocationCallbacks *callbacks, VkDeviceMemory *memory
) {
    unsigned long long most = number("CARD_BYTES"), refused = number("CARD_REFUSES");
    if (gone()) return VK_ERROR_DEVICE_LOST;
    asked++;
    if (getenv("CARD_TELLS")) fprintf(stderr, "allocation %lu: %lu bytes\n", asked, (unsigned long)wanted->allocationSize);
    if ((most && used + wanted->allocationSize > most) || (refused && asked >= refused))
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    VkResult result = REAL(vkAllocateMemory)(device, wanted, callbacks, memory);
    for (int i = 0; result == VK_SUCCESS && i < MOST; i++)
        if (held[i].memory == VK_NULL_HANDLE) {
            held[i].memory = *memory;
            used += held[i].size = wanted->allocationSize;
            break;
        }
    return result;
}

static void release(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *callbacks) {
    for (int i = 0; memory != VK_NULL_HANDLE && i < MOST; i++)
        if (held[i].memory == memory) {
            held[i].memory = VK_NULL_HANDLE;
            used -= held[i].size;
        }
    REAL(vkFreeMemory)(device, memory, callbacks);
}

static void tell_memory(VkPhysicalDevice card, VkPhysicalDeviceMemoryProperties2 *told) {
    unsigned long long most = number("CARD_BYTES");
    REAL(vkGetPhysicalDeviceMemoryProperties2)(card, told);
    if (!most) return;
    told->memoryProperties.memoryHeaps[0].size = most;
    for (VkBaseOutStructure *next = told->pNext; next; next = next->pNext)
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) {
            ((VkPhysicalDeviceMemoryBudgetPropertiesEXT *)next)->heapBudget[0] = most;
            ((VkPhysicalDeviceMemoryBudgetPropertiesEXT *)next)->heapUsage[0] = used;
        }
}

static VkResult submit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits, VkFence fence) {
    return gone() ? VK_ERROR_DEVICE_LOST : REAL(vkQueueSubmit)(queue, count, submits, fence);
}

static VkResult wait(VkDevice device, uint32_t count, const VkFence *fences, VkBool32 all, uint64_t limit) {
    return gone() ? VK_ERROR_DEVICE_LOST : REAL(vkWaitForFences)(device, count, fences, all, limit);
}

/* llama.cpp asks without pause: waiting a little here leaves the processor to the driver, which computes on it. */
static VkResult status(VkDevice device, VkFence fence) {
    VkResult result = wait(device, 1, &fence, VK_TRUE, 2000000);
    return result == VK_TIMEOUT ? VK_NOT_READY : result;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance of, const char *name) {
    static const struct { const char *name; PFN_vkVoidFunction function; } ours[] = {
        {"vkAllocateMemory", (PFN_vkVoidFunction)allocate},
        {"vkFreeMemory", (PFN_vkVoidFunction)release},
        {"vkGetPhysicalDeviceMemoryProperties2", (PFN_vkVoidFunction)tell_memory},
        {"vkGetPhysicalDeviceMemoryProperties2KHR", (PFN_vkVoidFunction)tell_memory},
        {"vkQueueSubmit", (PFN_vkVoidFunction)submit},
        {"vkWaitForFences", (PFN_vkVoidFunction)wait},
        {"vkGetFenceStatus", (PFN_vkVoidFunction)status},
    };
    if (!loader) loader = (PFN_vkGetInstanceProcAddr)dlsym(dlopen("libvulkan.so.1", RTLD_NOW), "vkGetInstanceProcAddr");
    if (of) instance = of;
    for (size_t i = 0; of && i < sizeof ours / sizeof *ours; i++)
        if (!strcmp(name, ours[i].name)) return ours[i].function;
    return loader(of, name);
}
