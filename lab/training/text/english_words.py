"""More English words, added to the lists of `words.py` for everything made after its first set.

The first set's lists stay as they are, so that it can be made again bit for bit. Form: see there.
A name that is in both modules has the entries of both.
"""

WORDS: dict[str, str] = {
    "name": "Adam Amelia Arthur Barbara Benjamin Carlos Charlotte Christine Dorothy Eleanor Elias "
    "Eva Felix Florence Gabriel Grace Hannah Isaac Ivan Jasmine Jonathan Kevin Leonard Lily Lucas "
    "Margaret Marcus Michelle Natalie Nathan Olivia Patricia Philip Rachel Rebecca Samuel Sarah "
    "Sebastian Stephanie Theodore Valerie Vincent William Zoe",
    "surname": "Anderson Baxter Campbell Davidson Edwards Fletcher Gibson Harrison Jackson Kennedy "
    "Lawson Mitchell Newman Patterson Robinson Sanders Sullivan Thompson Wagner Watson",
    "family": "nephew niece grandson granddaughter twin stepfather",
    "person": "architect carpenter chef clerk coach composer detective editor engineer gardener "
    "guard journalist judge librarian mechanic musician officer plumber poet postman president "
    "professor sailor scientist secretary shepherd shopkeeper soldier surgeon tailor translator "
    "volunteer writer stranger tourist customer passenger child",
    "room": "balcony corridor laboratory lobby pantry studio terrace workshop",
    "device": "aircon boiler charger doorbell freezer grill humidifier intercom kettle keyboard "
    "microphone microwave monitor router scanner sensor sprinkler stereo tablet thermostat toaster",
    "color": "beige crimson turquoise violet scarlet lavender navy",
    "food": "almonds bacon broccoli cabbage celery cereal cucumber dumplings ginger ham jam "
    "ketchup "
    "lentils lettuce lobster mayonnaise muffins mustard oatmeal olives omelette peanuts popcorn "
    "porridge pudding pumpkin salmon shrimp stew toast tuna vinegar walnuts zucchini",
    "fruit": "apricots blueberries coconuts figs mangoes pineapples raspberries watermelons",
    "drink": "champagne cider espresso milkshake smoothie whiskey",
    "city": "Amsterdam Bangkok Barcelona Brussels Budapest Cairo Copenhagen Delhi Edinburgh "
    "Florence "
    "Geneva Hamburg Helsinki Houston Istanbul Jerusalem Liverpool Manchester Melbourne Miami "
    "Montreal Munich Oslo Philadelphia Prague Seattle Shanghai Singapore Stockholm Vancouver "
    "Venice Warsaw",
    "country": "Argentina Australia Austria Belgium Chile China Denmark England Finland Greece "
    "Hungary Iceland Ireland Kenya Morocco Portugal Scotland Sweden Switzerland Turkey Ukraine "
    "Vietnam",
    "language": "Arabic Chinese Dutch Greek Polish Portuguese Russian Swedish Turkish",
    "street": "Baker Bridge Cedar Chestnut Church Garden Highland Jefferson King Lincoln Maple "
    "Market Park Queen Station Victoria Washington Willow",
    "place": "academy bank bookstore campus cathedral cemetery clinic courthouse embassy "
    "fairground "
    "fountain gallery greenhouse gym harbor kindergarten laundry lighthouse monastery palace "
    "parliament playground prison square suburb temple tower tunnel warehouse zoo",
    "animal": "ant bat bear bee beetle camel crab crocodile crow deer donkey eagle falcon giraffe "
    "hamster hedgehog kangaroo kitten lizard moth octopus owl parrot peacock penguin pigeon pony "
    "puppy rat rooster salmon seal shark squirrel stork swan tortoise whale worm zebra",
    "thing": "anchor arrow axe backpack balloon bandage barrel battery bell belt bench blackboard "
    "bomb bracelet broom brush bucket bulb button cable calendar camera carpet chain coin comb "
    "compass crown cushion desk diary dictionary doll drawer drill envelope eraser feather flag "
    "flashlight folder fork frame handle helmet hook jewel jug kite lamp lantern magazine magnet "
    "map marble mask medal microscope mug nail napkin necklace needle notebook paddle parcel "
    "passport pen postcard pot puzzle razor remote rope ruler saddle saw scale screw sculpture "
    "shelf shovel sofa sponge stamp statue sticker string sword telescope tent thermometer toy "
    "tray trophy tube vase wheel whistle wire wreath zipper",
    "vehicle": "ambulance canoe helicopter motorcycle rocket scooter submarine subway tractor "
    "van wagon yacht",
    "weather": "breezy chilly freezing misty mild overcast sticky",
    "sky": "drizzle frost hail rainbows showers storms",
    "size": "broad deep enormous gigantic medium shallow slim thick thin",
    "quality": "ancient awful basic bitter bright brilliant charming clever common complete cruel "
    "crooked damp dangerous dark delicate delicious dull elegant exact false fancy fragile fresh "
    "friendly gentle gloomy graceful hollow honest horrible ideal important innocent local loose "
    "lovely lucky magic mysterious narrow natural noisy normal ordinary painful peaceful perfect "
    "plain pleasant poor popular powerful precious private public pure rare raw ripe rough rusty "
    "safe secret sharp shiny silent smooth solid sour special spicy steep stiff stupid sudden "
    "sweet terrible tidy tight transparent ugly unusual useful useless valuable wild wise "
    "wonderful "
    "wooden",
    "mood": "amazed anxious ashamed brave cheerful confident confused delighted desperate "
    "disappointed embarrassed enthusiastic furious generous gentle guilty hopeful jealous lazy "
    "miserable patient polite relaxed relieved restless satisfied serious shy upset",
    "job_place": "agency bakery brewery charity court firm ministry museum publisher theater",
    "subject": "algebra astronomy economics engineering grammar law literature mathematics "
    "medicine philosophy physics politics psychology religion",
    "sport": "badminton baseball cricket handball rugby squash",
    "instrument": "accordion cello clarinet harp organ saxophone trombone ukulele",
    "hobby": "boxing camping climbing cycling drawing jogging juggling photography riding rowing "
    "sewing shopping skating surfing wrestling yoga",
    "body": "ankle beard brain cheek chest chin ear elbow eyebrow forehead heart heel hip jaw "
    "lip lung mouth muscle skin throat thumb toe tongue waist wrist",
    "nature": "bay beach bush canyon cliff coast creek field glacier harbor hedge horizon jungle "
    "meadow ocean peninsula pond rock shore swamp trail valley volcano wood",
    "material": "brick bronze canvas cardboard clay concrete copper iron marble rubber sand silk "
    "steel wax wool",
    "past_go": "climbed crawled cycled jumped marched rode rushed sailed wandered",
    "past_do": "admired arranged baked borrowed broke built burned caught checked chose collected "
    "counted covered delivered described designed destroyed discovered drew examined fixed "
    "gathered guarded hated ignored invented kept loved measured mentioned noticed ordered packed "
    "pulled pushed recognized recorded removed replaced returned saved shook stole threw touched "
    "tried used watched wrapped",
    "infinitive": "admire arrange build burn catch check choose collect compare count cover "
    "deliver "
    "describe design discover draw examine fix gather imagine improve inspect measure mention move "
    "order pack prepare protect pull push recognize record remove replace return save "
    "share throw touch watch wrap",
    "act": "argue begin breathe celebrate complain continue dream drive eat fight fly "
    "hesitate hurry improve jump knock laugh lie listen pray relax scream shout sit speak stand "
    "stay succeed talk think train walk whistle win worry",
    "act_past": "argued arrived began celebrated complained disappeared dreamed escaped fainted "
    "fell fought hesitated jumped lied nodded paused prayed relaxed rested screamed sighed sneezed "
    "stood succeeded trembled vanished waved whistled woke yawned",
    "say": "added admitted announced begged declared insisted muttered repeated sighed suggested "
    "warned",
    "manner": "accidentally angrily badly bravely calmly cheerfully clearly eagerly easily "
    "elegantly honestly immediately kindly lazily madly neatly nervously patiently perfectly "
    "politely proudly sadly safely secretly seriously silently softly strangely warmly wildly",
    "frequency": "constantly frequently hardly normally occasionally seldom",
    "adverb": "absolutely barely completely fairly incredibly nearly particularly perfectly "
    "pretty slightly terribly totally truly",
    "ordinal": "eleventh thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth "
    "nineteenth "
    "twenty-first twenty-second twenty-third twenty-fourth twenty-fifth twenty-sixth "
    "twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first",
    "unit_time": "decades centuries nights weekends",
    "unit": "cents centimeters gallons inches kilograms liters ounces points yards",
    "media": "album audiobook broadcast cartoon channel comedy documentary episode interview "
    "lecture news opera radio video",
    "genre": "blues electronic gospel metal reggae soul techno",
    "company_thing": "account agenda agreement application brochure campaign certificate database "
    "deadline deposit discount draft estimate file forecast guideline insurance inventory "
    "license mortgage newsletter order payment permit policy proposal receipt "
    "reservation salary statement strategy summary survey target website workshop",
    "clothes": "apron belt bracelets cap cardigan hoodie jeans pajamas raincoat robe sandals "
    "shorts skirt slippers suit sunglasses tie uniform vest",
    "problem": "accident advantage advice argument complaint conflict crisis danger decision delay "
    "difficulty disaster discovery doubt error excuse experience fault habit impression "
    "opinion opportunity purpose puzzle risk rumor skill solution success talent theory warning",
    "plural": "animals apartments articles bananas buildings coins colors computers countries "
    "dancers doors drivers eggs envelopes farmers fingers guests islands keys kittens lamps "
    "languages machines maps mirrors neighbors newspapers nurses orders packages pages passengers "
    "phones photographs planets players rabbits rivers shops soldiers spoons streets swimmers "
    "teachers tourists trains umbrellas visitors windows workers",
    "school_thing": "assignment experiment paragraph quiz thesis vocabulary",
    "abstract": "beauty courage culture curiosity education freedom friendship happiness health "
    "honor hope humor imagination justice kindness knowledge luck memory nature patience peace "
    "power progress silence strength time trust truth wealth wisdom youth",
    "illness": "headache fever cough flu allergy toothache sunburn",
    "holiday": "Christmas Easter Halloween Thanksgiving",
    "planet": "Mercury Venus Mars Jupiter Saturn Neptune",
    "verb_ing": "asking barking bleeding blowing boiling bouncing buzzing crying digging drinking "
    "eating falling flying glowing growing hiding hunting jumping knocking laughing leaking "
    "looking melting moving playing ringing rolling shaking shining sinking sitting smoking "
    "snoring spinning standing talking waiting walking whistling working",
    "linking": "although because before unless until while after since",
    "quantity": "dozens plenty hundreds lots",
}

PHRASES: dict[str, str] = {
    "question": "What do you think about it|When will you be back|Why is everybody laughing|"
    "Have we met before|Would you mind closing that|How long have you been waiting|"
    "May I borrow your charger|What would you recommend|Is there anything else|"
    "Whose turn is it|Does anybody know the rules|Shall we begin|How far is it",
    "remark": "Nobody told me anything about it|I could not agree more|That depends on the "
    "situation|"
    "It does not matter anymore|Everything happened so quickly|Let us talk about something else|"
    "Somebody must have noticed|I would rather stay here|You should have seen their faces|"
    "Better late than never|Practice makes perfect|It was worth every penny",
    "reaction": "Certainly|Indeed|Perhaps|Probably|Definitely|Obviously|Unfortunately not|Thank "
    "goodness|Fantastic|Excellent|Nonsense|Cheers|Whatever you like|Neither do I|So am I|"
    "Fair enough|Good point|My apologies|Not yet|Hold on|Come in|Go ahead|No way|Yes|No|Maybe|"
    "Okay|Sorry|Stop|Wait|Listen|Look|Help|Again|Never|Always|Nothing|Everything|Everywhere",
    "moment": "at dawn|at dusk|two days ago|the day after tomorrow|once in a while|at the moment|"
    "sooner or later|during the night|from time to time|at the last minute|this afternoon",
    "preposition": "below the|beyond the|against the|opposite the|underneath the|around the|"
    "on top of the|far from the|close to the|at the edge of the",
}
